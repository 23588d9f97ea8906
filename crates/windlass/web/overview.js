// Totals: tiles, charts, rules.

import { Chart } from "./charts.js";
import { Rows, h, setText, table } from "./dom.js";
import { bps, bytes, count, of, percent, perSecond, span, stateClass } from "./format.js";

const TILES = ["Flows", "Controlled", "From servers", "Lost", "Repaired", "Store", "Flow table"];

const RULES = [["Rule", ""], ["Flows", "n"], ["Controlled", "n"], ["Delivered", "n"], ["In flight", "n"], ["Stored", "n w2"], ["Lost", "n w2"], ["Repaired", "n w2"], ["By server", "n w1"]];

const filterOf = (filter) => `#/flows?${new URLSearchParams({ filter })}`;

function sum(datapaths, name) {
	return datapaths.reduce((total, datapath) => total + datapath.use[name], 0);
}

export function overview(root, app) {
	const values = TILES.map(() => [h("b", {}, "–"), h("small", {}, "")]);
	const tiles = TILES.map((title, at) => h("div", { class: "card tile" }, h("span", {}, title), ...values[at]));
	const rate = new Chart("From servers", [{ name: "controlled", color: "s1", fill: true }, { name: "only watched", color: "s2" }], bps);
	const flows = new Chart("Flows", [{ name: "all", color: "s1" }, { name: "controlled", color: "s3", fill: true }], count);
	const losses = new Chart("Segments per second", [{ name: "lost", color: "s4" }, { name: "repaired by the box", color: "s3" }, { name: "retransmitted by servers", color: "s2" }], perSecond);
	const charts = [rate, flows, losses];
	const body = h("tbody");
	const rules = new Rows(body, (total) => {
		const cells = RULES.slice(1).map(([, name]) => h("td", { class: name }));
		const element = h("tr", {}, h("th", { scope: "row" }, h("a", { href: filterOf(`rule ${total.rule_name}`) }, total.rule_name)), cells);
		const update = (t) => [count(t.flows), count(t.controlled), bps(t.rate_bps), bytes(t.inflight_bytes), bytes(t.stored_bytes), count(t.lost_segs), count(t.repaired_segs), count(t.sender_retrans_segs)]
			.forEach((text, at) => setText(cells[at], text));
		return { element, update };
	});
	const states = h("ul", { class: "states" });
	const stateRows = new Rows(states, ([word]) => {
		const number = h("b");
		const element = h("li", {}, h("a", { href: filterOf(`state ${word}`), class: stateClass(word) }, word, " ", number));
		return { element, update: ([, n]) => setText(number, count(n)) };
	});
	const agent = ["Agent", "Version", "Policy (SHA-256)", "Health", "Look took"].map((title) => [title, h("dd")]);
	const warnings = h("ul", { class: "warnings" });
	const warningRows = new Rows(warnings, () => {
		const element = h("li");
		return { element, update: (text) => setText(element, text) };
	});
	const none = h("p", { class: "empty", hidden: true }, "No flow now. As soon as a connection passes a controlled interface it is here.");
	root.append(
		h("h1", { class: "hidden" }, "Overview"),
		h("div", { class: "tiles" }, tiles),
		none,
		h("div", { class: "charts" }, charts.map((chart) => chart.element)),
		h("div", { class: "columns" },
			h("section", { class: "card grow" }, h("h2", {}, "Rules"), table("Totals of flows that are there now, by rule", RULES, body)),
			h("section", { class: "card" }, h("h2", {}, "States"), states,
				h("h2", {}, "Agent"), h("dl", { class: "facts" }, agent.map(([title, value]) => h("div", {}, h("dt", {}, title), value))), warnings)),
	);

	function show(look) {
		const controlled = look.states.controlled ?? 0;
		const per = (name) => look.per_s[name] ?? 0;
		const [used, store] = ["store_used_bytes", "store_bytes"].map((name) => sum(look.datapaths, name));
		const [entries, room] = ["flows_used", "flows_max"].map((name) => sum(look.datapaths, name));
		const texts = [
			[count(look.flows), of(look.totals.length, "rule")],
			[count(controlled), percent(controlled, look.flows)],
			[bps((per("stored_bytes") + per("watched_bytes")) * 8), "payload"],
			[perSecond(per("lost_segs")), "segments/s"],
			[perSecond(per("repaired_segs")), "segments/s"],
			[percent(used, store), `${bytes(used)} of ${bytes(store)}`],
			[percent(entries, room), `${count(entries)} of ${count(room)}`],
		];
		texts.forEach((both, at) => both.forEach((text, part) => setText(values[at][part], text)));
		none.hidden = look.flows > 0;
		rate.show(app.history.of(0, 1));
		flows.show(app.history.of(2, 3));
		losses.show(app.history.of(4, 5, 6));
		rules.show(look.totals.map((total) => [total.rule_name, total]));
		stateRows.show(Object.entries(look.states).sort((a, b) => b[1] - a[1]).map((entry) => [entry[0], entry]));
		const { agent: about } = look;
		[`process ${about.process}, for ${span(about.runs_for_s)}`, about.version, about.policy_hash?.slice(0, 16) ?? "–", about.words, `${(look.took_us / 1000).toFixed(1)} ms`]
			.forEach((text, at) => setText(agent[at][1], text));
		agent[3][1].className = about.is_ready ? "good" : "bad";
		warningRows.show(Object.entries(look.one_way).map(([iface, what]) => [iface, `${iface}: ${what}`]));
	}

	return { title: "Overview", show, end: () => charts.forEach((chart) => chart.end()) };
}
