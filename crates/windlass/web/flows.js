// The flow table: the agent filters, sorts and pages; of however many flows only the rows in sight are elements.

import { h, setClass, setText } from "./dom.js";
import { bps, bytes, count, of, stateClass, us } from "./format.js";

/** Title, name of the column for sorting, class, text. `w1` to `w3` leave in this order where there is no room. */
const COLUMNS = [
	["Receiver", "receiver", "address", (row) => row.receiver],
	["Sender", "sender", "address w3", (row) => row.sender],
	["State", "state", "state", (row) => row.word],
	["Rate", "rate", "n rate", (row) => bps(row.rate_bps)],
	["RTT", "srtt", "n time", (row) => us(row.srtt_us)],
	["Least", "min_rtt", "n w2", (row) => us(row.min_rtt_us)],
	["cwnd", "cwnd", "n w3", (row) => bytes(row.cwnd_bytes)],
	["In flight", "inflight", "n w2", (row) => bytes(row.inflight_bytes)],
	["Lost", "lost", "n w3", (row) => count(row.lost_segs)],
	["Repaired", "repaired", "n w2", (row) => count(row.repaired_segs)],
	["By server", "sender-rtx", "n w1", (row) => count(row.sender_retrans_segs)],
	["Algorithm", "alg", "w2", (row) => row.algorithm + (row.has_own_algorithm ? " (own)" : "")],
	["Rule", "rule", "w2", (row) => row.rule_name],
	["Interface", "iface", "w1", (row) => row.iface],
	["Group", "group", "w1", (row) => row.group?.name ?? "–"],
];

/** Rows beyond those in sight that are fetched as well. */
const MARGIN = 40;

export const flowHash = (row) => `#/flow?${new URLSearchParams({ iface: row.iface, sender: row.sender, receiver: row.receiver })}`;

const keyOf = (row) => `${row.iface} ${row.sender} ${row.receiver} ${row.first_seq}`;

export function flows(root, app, query) {
	let [filter, sort, reverse] = [query.get("filter") ?? "", query.get("sort") ?? "rate", query.get("reverse") === "1"];
	let page = { offset: 0, rows: [], matching: 0, flows: 0 };
	let selected = 0;
	let selectedKey = null;
	let height = 30;
	let isAsked = false;
	let isStale = false;

	const input = h("input", { type: "search", id: "filter", placeholder: "state controlled and dst 192.0.2.0/24", autocomplete: "off", autocapitalize: "off", spellcheck: "false", "aria-describedby": "filter-help filter-error", input: () => later(choose) });
	input.value = filter;
	const error = h("p", { id: "filter-error", class: "bad", role: "alert" });
	const number = h("p", { class: "number" });
	const order = h("select", { "aria-label": "Sort by", change: () => { [sort, reverse] = [order.value, false]; choose(); } },
		COLUMNS.map(([title, name]) => h("option", { value: name }, title)));
	const heads = COLUMNS.map(([title, name, cls]) => {
		const button = h("button", { type: "button", click: () => { reverse = sort === name && !reverse; sort = name; choose(); } }, title);
		return h("th", { scope: "col", class: cls }, button);
	});
	const [above, below] = [0, 1].map(() => h("tr", { class: "space", "aria-hidden": "true" }, h("td")));
	const body = h("tbody", {}, above, below);
	const grid = h("table", { class: "flows" }, h("caption", { class: "hidden" }, "Flows"), h("thead", {}, h("tr", {}, heads)), body);
	const scroller = h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Flows", scroll: () => { draw(); ask(); } }, grid);
	const empty = h("p", { class: "empty", hidden: true });
	root.append(
		h("h1", { class: "hidden" }, "Flows"),
		h("form", { class: "filter", role: "search", submit: (event) => { event.preventDefault(); input.blur(); scroller.focus(); } },
			h("label", { for: "filter" }, "Filter"), input, h("div", { class: "sort" }, order), number),
		error,
		h("p", { id: "filter-help", class: "hint" }, "As of ", h("code", {}, "windlass flows"), ": state, rule, iface, alg, src, dst, sport, dport; several values with commas, != for none of them."),
		empty, scroller);
	const rows = [];

	let timer;
	function later(action) {
		clearTimeout(timer);
		timer = setTimeout(action, 150);
	}

	/** Others are wanted: the address of the page has them, too. */
	function choose() {
		filter = input.value.trim();
		const wanted = new URLSearchParams({ ...(filter && { filter }), sort, ...(reverse && { reverse: "1" }) });
		history.replaceState(null, "", `#/flows?${wanted}`);
		selected = 0;
		selectedKey = null;
		scroller.scrollTop = 0;
		ask();
	}

	/** A row's element, of those that are used again and again. */
	function made() {
		const link = h("a", { tabindex: "-1" });
		const state = h("span");
		const cells = COLUMNS.map(([, name, cls], at) => h(at ? "td" : "th", { class: cls, ...(at ? {} : { scope: "row" }) }, name === "receiver" ? link : name === "state" ? state : ""));
		const element = h("tr", { click: (event) => { if (!event.target.closest("a")) select(own.at); }, dblclick: () => { location.hash = link.hash; } }, cells);
		const own = { element, link, state, cells, at: 0 };
		return own;
	}

	function fill(own, at) {
		const row = page.rows[at - page.offset];
		own.at = at;
		own.element.setAttribute("aria-rowindex", at + 2);
		own.element.classList.toggle("selected", at === selected);
		if (at === selected) own.element.setAttribute("aria-current", "true");
		else own.element.removeAttribute("aria-current");
		COLUMNS.forEach(([, name, , text], column) => {
			const words = row ? text(row) : "…";
			const target = name === "receiver" ? own.link : name === "state" ? own.state : own.cells[column];
			setText(target, words);
		});
		setClass(own.state, row ? stateClass(row.word) : "");
		if (row) own.link.href = flowHash(row);
	}

	const inSight = () => {
		const first = Math.max(0, Math.floor(scroller.scrollTop / height) - 4);
		const room = Math.ceil(scroller.clientHeight / height) + 9;
		return [first, Math.min(first + room, page.matching)];
	};

	/** Shows the rows in sight. */
	function draw() {
		const [first, end] = inSight();
		while (rows.length < end - first) {
			const own = made();
			rows.push(own);
			body.insertBefore(own.element, below);
		}
		while (rows.length > Math.max(end - first, 0)) rows.pop().element.remove();
		above.firstChild.style.height = `${first * height}px`;
		below.firstChild.style.height = `${Math.max(0, page.matching - end) * height}px`;
		rows.forEach((own, at) => fill(own, first + at));
	}

	function heading() {
		heads.forEach((head, at) => {
			const isIt = COLUMNS[at][1] === sort;
			// numbers come from the largest on
			const isNumber = COLUMNS[at][2].split(" ").includes("n");
			head.setAttribute("aria-sort", isIt ? (isNumber !== reverse ? "descending" : "ascending") : "none");
		});
		order.value = sort;
	}

	function select(at) {
		selected = Math.min(Math.max(at, 0), Math.max(page.matching - 1, 0));
		const row = page.rows[selected - page.offset];
		selectedKey = row ? keyOf(row) : null;
		const [top, room] = [selected * height, scroller.clientHeight - height * 2];
		if (top < scroller.scrollTop) scroller.scrollTop = top;
		else if (top > scroller.scrollTop + room) scroller.scrollTop = top - room;
		draw();
	}

	/** Asks for the rows in sight and those around; what is asked for meanwhile is asked for thereafter, once. */
	async function ask() {
		if (isAsked) {
			isStale = true;
			return;
		}
		isAsked = true;
		const [first, end] = inSight();
		const offset = Math.max(0, first - MARGIN);
		const limit = Math.min(Math.max(end - first, 40) + 2 * MARGIN, 500);
		const wanted = new URLSearchParams({ filter, sort, reverse: reverse ? "1" : "0", offset, limit });
		const { status, data } = await app.get(`flows?${wanted}`);
		isAsked = false;
		if (!root.isConnected) return;
		setText(error, status === 400 ? data.why : "");
		input.setAttribute("aria-invalid", status === 400);
		if (status === 200) take(data);
		if (isStale) {
			isStale = false;
			ask();
		}
	}

	function take(data) {
		page = data;
		// the marked flow keeps its mark where its place is another now
		const at = selectedKey ? page.rows.findIndex((row) => keyOf(row) === selectedKey) : -1;
		if (at >= 0) selected = page.offset + at;
		setText(number, page.matching === page.flows ? of(page.flows, "flow") : `${count(page.matching)} of ${of(page.flows, "flow")}`);
		grid.setAttribute("aria-rowcount", page.matching + 1);
		empty.hidden = page.matching > 0;
		setText(empty, page.flows ? "No flow matches." : "No flow now. As soon as a connection passes a controlled interface it is here.");
		scroller.hidden = page.matching === 0;
		heading();
		draw();
		const measured = rows[0]?.element.getBoundingClientRect().height;
		if (measured && Math.abs(measured - height) > 0.5) {
			height = measured;
			draw();
		}
	}

	function follow() {
		const row = page.rows[selected - page.offset];
		if (row) location.hash = flowHash(row);
	}

	const step = (by) => () => select(selected + by);
	heading();
	ask();
	return {
		title: "Flows",
		show: () => ask(),
		keys: { j: step(1), k: step(-1), ArrowDown: step(1), ArrowUp: step(-1), PageDown: step(20), PageUp: step(-20), Home: () => select(0), End: () => select(page.matching - 1), Enter: follow },
		end: () => clearTimeout(timer),
	};
}
