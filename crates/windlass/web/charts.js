// Charts over time, by uPlot, in the colours of the page.

import { h, setText } from "./dom.js";
import { bytes } from "./format.js";

/** So many seconds at least from left to right. */
const LEAST = 30;
/** Steps between lines of bytes. */
const STEPS = Array.from({ length: 41 }, (_, at) => 2 ** at);

/** The colour of a variable of the style sheet, as it is now. */
function color(name) {
	const probe = h("span", { class: `c-${name}` });
	document.body.append(probe);
	const found = getComputedStyle(probe).color;
	probe.remove();
	return found;
}

/** Charts that are shown: a change of colours makes them anew. */
const shown = new Set();

export function recolor() {
	shown.forEach((chart) => chart.draw());
}

/** A chart with a legend, which has the newest values. `series` are { name, color, fill }; `format` makes texts of values. */
export class Chart {
	constructor(title, series, format) {
		this.series = series;
		this.format = format;
		this.data = [[], ...series.map(() => [])];
		this.values = series.map(() => h("b", {}, "–"));
		const legend = series.map((one, at) => h("li", {}, h("i", { class: `swatch c-${one.color}` }), `${one.name} `, this.values[at]));
		this.plot = h("div", { class: "plot", role: "img", "aria-label": `${title}, over time; the newest values stand above` });
		this.element = h("section", { class: "card chart" }, h("h3", {}, title), h("ul", { class: "legend" }, legend), this.plot);
		this.observer = new ResizeObserver(() => this.resize());
		this.observer.observe(this.plot);
		shown.add(this);
	}

	/** What stands at a line of the chart; nothing where there is nothing to show yet. */
	label(value) {
		if (!this.data[0].length) return "";
		return value ? this.format(value) : "0";
	}

	/** Values above several times the largest of the first series, as a pacing rate at the start, are out of sight. */
	top(high) {
		const first = this.data[1].reduce((most, value) => Math.max(most, value ?? 0), 0);
		return (first > 0 ? Math.min(high, first * 3) : high) * 1.1 || 1;
	}

	size() {
		return { width: Math.max(this.plot.clientWidth, 80), height: Math.max(this.plot.clientHeight, 60) };
	}

	resize() {
		if (this.chart) this.chart.setSize(this.size());
		else this.draw();
	}

	draw() {
		this.chart?.destroy();
		if (!this.plot.clientWidth) return;
		const em = parseFloat(getComputedStyle(this.plot).fontSize);
		const font = `${Math.round(em * 0.8)}px ${getComputedStyle(document.body).fontFamily}`;
		const axis = { stroke: color("muted"), font, grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1, size: 4 } };
		const options = {
			...this.size(),
			legend: { show: false },
			cursor: { show: true, y: false, points: { show: false }, drag: { x: false, y: false } },
			padding: [em * 0.8, em * 1.9, 0, 0],
			scales: { x: { time: true, range: (_, low, high) => [Math.min(low, high - LEAST), high] }, y: { range: (_, low, high) => [0, this.top(high)] } },
			axes: [
				{ ...axis, space: em * 6, size: em * 1.9, values: "{HH}:{mm}:{ss}" },
				{ ...axis, space: em * 2.4, size: em * 5.4, values: (_, ticks) => ticks.map((tick) => this.label(tick)), ...(this.format === bytes && { incrs: STEPS }) },
			],
			series: [{}, ...this.series.map((one) => ({
				label: one.name,
				stroke: color(one.color),
				width: 2,
				fill: one.fill ? color(one.color).replace("rgb(", "rgba(").replace(")", ", 0.14)") : undefined,
				points: { show: false },
				spanGaps: false,
			}))],
		};
		this.chart = new uPlot(options, this.data, this.plot);
	}

	/** Shows these columns: times in seconds, then one for each series. */
	show(data) {
		this.data = data;
		this.chart?.setData(data);
		this.values.forEach((value, at) => setText(value, this.format(data[at + 1].at(-1))));
	}

	end() {
		this.observer.disconnect();
		this.chart?.destroy();
		shown.delete(this);
	}
}

/** Columns of samples over time, the newest `seconds` of them. */
export class History {
	constructor(columns, seconds) {
		this.seconds = seconds;
		this.data = Array.from({ length: columns + 1 }, () => []);
	}

	add(...values) {
		const now = Date.now() / 1000;
		[now, ...values].forEach((value, at) => this.data[at].push(value));
		const old = this.data[0].findIndex((time) => time >= now - this.seconds);
		if (old > 64) this.data.forEach((column) => column.splice(0, old));
	}

	/** Some of the columns, with the times. */
	of(...columns) {
		return [this.data[0], ...columns.map((at) => this.data[at + 1])];
	}
}
