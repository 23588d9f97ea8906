// What was counted, in all and per second.

import { Rows, h, setText, table } from "./dom.js";
import { count, perSecond } from "./format.js";

const HEADS = [["Counter", ""], ["Count", "n"], ["Per second", "n"], ["Meaning", "wide"]];

export function counters(root, app) {
	let newest = [];
	const input = h("input", { type: "search", id: "filter", placeholder: "pass, bypass, lost …", autocomplete: "off", spellcheck: "false", input: () => draw() });
	const all = h("input", { type: "checkbox", id: "all", change: () => draw() });
	const lists = h("div", {});
	const rowOf = () => {
		const [name, number, rate, meaning] = [h("th", { scope: "row" }), ...HEADS.slice(1).map(([, cls]) => h("td", { class: cls }))];
		const element = h("tr", {}, name, number, rate, meaning);
		const update = (counter) => {
			[[name, counter.name], [number, count(counter.count)], [rate, counter.per_s > 0 ? perSecond(counter.per_s) : ""], [meaning, counter.meaning]].forEach(([cell, text]) => setText(cell, text));
			element.classList.toggle("active", counter.per_s > 0);
		};
		return { element, update };
	};
	const datapaths = new Rows(lists, () => {
		const body = h("tbody");
		const [title, rows] = [h("h2"), new Rows(body, rowOf)];
		const update = (datapath) => {
			setText(title, datapath.interfaces);
			const words = input.value.trim().toLowerCase();
			const isWanted = (c) => (all.checked || c.count > 0) && (!words || c.name.includes(words) || c.meaning.toLowerCase().includes(words));
			rows.show(datapath.counters.filter(isWanted).map((counter) => [counter.name, counter]));
		};
		return { element: h("section", { class: "card" }, title, table("Counters since the datapath was loaded", HEADS, body)), update };
	});
	root.append(
		h("h1", { class: "hidden" }, "Counters"),
		h("form", { class: "filter", role: "search", submit: (event) => event.preventDefault() }, h("label", { for: "filter" }, "Filter"), input, h("label", { class: "check" }, all, " also those that are zero")),
		lists);

	function draw() {
		datapaths.show(newest.map((datapath) => [datapath.interfaces, datapath]));
	}

	const ask = app.asking("counters", root, (data) => {
		newest = data.datapaths;
		draw();
	});
	ask();
	return { title: "Counters", show: ask };
}
