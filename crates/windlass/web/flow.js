// One flow, live: what holds it back, its window, round trips, rate, losses, and what was decided.

import { Chart, History } from "./charts.js";
import { Rows, h, setClass, setText, table } from "./dom.js";
import { bps, bytes, count, percent, perSecond, span, stateClass, us } from "./format.js";

const LIMITS = [["window", "s1"], ["recovery", "s4"], ["receiver", "s2"], ["sender", "s5"], ["application", "s3"], ["group", "s6"], ["idle", "muted"], ["uncontrolled", "ink"]];

const TILES = ["Delivered", "cwnd", "In flight", "RTT", "Least RTT", "Paced", "Lost", "Repaired", "By server"];

/** What was delivered between two readings of a counter modulo 2^32; a small step back is none. */
function delivered(before, now) {
	const difference = (now - before) >>> 0;
	return difference > 0xf000_0000 ? 0 : difference;
}

export function flow(root, app, query) {
	const name = new URLSearchParams(["iface", "sender", "receiver"].map((key) => [key, query.get(key) ?? ""]));
	// seconds of history; cwnd, flight, srtt, min_rtt, rate, pacing, lost, repaired, by server, queued
	const samples = new History(10, 300);
	let before = null;
	let seenAt = performance.now();
	let isAsked = false;

	const state = h("span", { class: "chip" });
	const facts = h("p", { class: "sub" });
	const gone = h("p", { class: "notice", hidden: true });
	const [cause, cure, reason] = [h("p", { class: "cause" }, "…"), h("p", {}), h("p", { class: "sub" })];
	const values = TILES.map(() => [h("b", {}, "–"), h("small", {}, "")]);
	const tiles = TILES.map((title, at) => h("div", { class: "card tile" }, h("span", {}, title), ...values[at]));
	const windows = new Chart("Window", [{ name: "cwnd", color: "s1" }, { name: "in flight", color: "s3", fill: true }], bytes);
	const trips = new Chart("Round trip, box to client", [{ name: "smoothed", color: "s2" }, { name: "least", color: "s3" }], us);
	const rates = new Chart("Rate", [{ name: "delivered", color: "s1", fill: true }, { name: "paced", color: "s5" }], bps);
	const losses = new Chart("Segments per second", [{ name: "lost", color: "s4" }, { name: "repaired by the box", color: "s3" }, { name: "retransmitted by the server", color: "s2" }], perSecond);
	const charts = [rates, windows, trips, losses];
	// only of a simulated flow
	let queue = null;

	const spans = [["last_1s", "last second"], ["last_10s", "last ten"], ["life", "all"]];
	const bars = LIMITS.map(([limit, color]) => {
		const cells = spans.map(() => h("td", { class: "n" }));
		const bar = h("i", { class: `bar c-${color}` });
		return { limit, cells, bar, element: h("tr", {}, h("th", { scope: "row" }, limit), h("td", { class: "bars" }, bar), cells) };
	});
	const limits = table("What held the flow back, in parts of the time", [["By", ""], ["", "bars"], ...spans.map(([, title]) => [title, "n"])], h("tbody", {}, bars.map((bar) => bar.element)));
	const decided = h("tbody");
	const decisions = new Rows(decided, () => {
		const cells = [h("td", { class: "n" }), h("td"), h("td", { class: "n" })];
		const update = ([ago, what, cwnd]) => [ago, what, cwnd].forEach((text, at) => setText(cells[at], text));
		return { element: h("tr", {}, cells), update };
	});
	const noted = h("p", { class: "sub" });
	const drawn = h("div", { class: "charts two" }, charts.map((chart) => chart.element));
	const held = h("div", { class: "columns" },
		h("section", { class: "card grow" }, h("h2", {}, "Held back by"), limits, noted),
		h("section", { class: "card grow" }, h("h2", {}, "Decisions"), table("Decisions about the flow, the newest first", [["Ago", "n"], ["What", ""], ["cwnd", "n"]], decided)));
	root.append(
		h("div", { class: "title" },
			h("a", { href: "#/flows", class: "back", click: (event) => { if (history.length > 1) { event.preventDefault(); history.back(); } } }, "← Flows"),
			h("h1", {}, h("span", {}, query.get("sender") ?? ""), " → ", h("span", {}, query.get("receiver") ?? "")), state),
		facts, gone,
		h("section", { class: "card why" }, h("h2", {}, "What holds it back"), cause, cure, reason),
		h("div", { class: "tiles nine" }, tiles),
		drawn, held,
	);

	/** Why the flow is at its rate, as far as that is known. */
	function explain(why) {
		setText(cause, why.words);
		setText(cure, why.cure ? `Try: ${why.cure}` : "");
		setText(reason, why.reason_words ? `${why.state}: ${why.reason_words}` : "");
		for (const { limit, cells, bar } of bars) {
			spans.forEach(([key], at) => setText(cells[at], percent(why.limited_permille[key][limit], 1000)));
			bar.style.width = `${why.limited_permille.last_10s[limit] / 10}%`;
		}
		setText(noted, why.noted_for_us ? `Noted for ${span(why.noted_for_us / 1e6)}${why.is_partial ? ", since it was looked at" : ""}.` : "Nothing was noted of it yet; its next packets are.");
		decisions.show(why.decisions.map((d, at) => [at, [`${(d.ago_us / 1e6).toFixed(d.ago_us < 1e7 ? 2 : 0)} s`, d.what, bytes(d.cwnd_bytes)]]));
	}

	/** What a simulation knows besides. */
	function simulated(queued) {
		if (!queue) {
			queue = new Chart("Queued on its way, packets of all flows", [{ name: "queued", color: "s2", fill: true }], count);
			charts.push(queue);
			drawn.append(queue.element);
		}
		queue.show(samples.of(9));
	}

	function take({ t_us, word, flow: now, why, no_why, between, queued_packets: queued }) {
		seenAt = performance.now();
		gone.hidden = true;
		root.classList.remove("old");
		const isSame = before?.flow.first_seq === now.first_seq;
		const seconds = isSame ? (t_us - before.t_us) / 1e6 : 0;
		const per = (key) => (seconds > 0 ? Math.max(0, now[key] - before.flow[key]) / seconds : null);
		const rate = seconds > 0 ? (delivered(before.flow.delivered_bytes_mod_2_32, now.delivered_bytes_mod_2_32) * 8) / seconds : null;
		if (seconds > 0) samples.add(now.cwnd_bytes, now.inflight_bytes, now.srtt_us, now.min_rtt_us, rate, now.pacing_bps, per("lost_segs"), per("repaired_segs"), per("sender_retrans_segs"), queued);
		if (!isSame || seconds > 0) before = { t_us, flow: now };
		setText(state, word);
		setClass(state, stateClass(word));
		setText(facts, `${between ? `from ${between.join(" to ")}` : `behind ${now.iface}`}, rule ${now.rule_name}, ${now.algorithm}${now.has_own_algorithm ? " (its own)" : ""}, MSS ${now.mss_bytes}${now.group ? `, group ${now.group.name}, weight ${now.group.weight}` : ""}`);
		held.hidden = !why;
		if (why) explain(why);
		else setText(cause, no_why);
		if (queued != null) simulated(queued);
		const more = (text) => (why ? text() : "");
		[
			[bps(rate), more(() => `last RTT ${bps(why.delivery_bps)}`)],
			[bytes(now.cwnd_bytes), more(() => `client offers ${bytes(why.receiver_window_bytes)}`)],
			[bytes(now.inflight_bytes), more(() => `most ${bytes(why.flight_max_bytes)}`)],
			[us(now.srtt_us), more(() => `median ${us(why.rtt_p50_us)}`)],
			[us(now.min_rtt_us), more(() => `server to box ${us(why.sender_side_rtt_us)}`)],
			[now.pacing_bps ? bps(now.pacing_bps) : "not", ""],
			[count(now.lost_segs), `${perSecond(per("lost_segs"))} per second`],
			[count(now.repaired_segs), `${perSecond(per("repaired_segs"))} per second`],
			[count(now.sender_retrans_segs), more(() => `${count(why.sender_timeouts)} by timeout`)],
		].forEach((texts, at) => texts.forEach((text, part) => setText(values[at][part], text)));
		rates.show(samples.of(4, 5));
		windows.show(samples.of(0, 1));
		trips.show(samples.of(2, 3));
		losses.show(samples.of(6, 7, 8));
	}

	async function ask() {
		if (isAsked) return;
		isAsked = true;
		const { status, data } = await app.get(`flow?${name}`);
		isAsked = false;
		if (!root.isConnected) return;
		if (status === 200) return take(data);
		// that there is no agent stands above
		gone.hidden = status !== 404 && app.why != null;
		root.classList.add("old");
		const age = before ? ` What is shown is of ${span((performance.now() - seenAt) / 1000)} ago.` : "";
		setText(gone, (status === 404 ? "It has ended, or was forgotten." : (data.why ?? "")) + age);
	}

	ask();
	return { title: `${query.get("sender")} → ${query.get("receiver")}`, show: () => ask(), keys: { Escape: () => history.back() }, end: () => charts.forEach((chart) => chart.end()) };
}
