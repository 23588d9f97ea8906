// Charts of a trace: one x axis for all, so that a zoom shows the same time in each.
(() => {
	"use strict";
	const charts = JSON.parse(document.getElementById("data").textContent);
	const main = document.getElementById("charts");
	/** Colours of lines: on light, on dark. */
	const COLOURS = [
		["#0b62c4", "#6cb0ff"], ["#c2262d", "#ff8a80"], ["#0a7a3e", "#5fd08d"], ["#b35c00", "#ffb066"], ["#7a3db8", "#c79bff"],
		["#00707a", "#5ccfd8"], ["#b0307a", "#ff9ad2"], ["#6b6b10", "#d6d65c"], ["#5a5a5a", "#b8b8b8"], ["#78503c", "#d9a98e"],
	];
	const HEIGHT = 280;
	const last = Math.max(...charts.flatMap((chart) => chart.lines.map((line) => line.x.at(-1))));
	const sync = uPlot.sync("trace");
	let plots = [];
	let range = [0, last];

	function isDark() {
		const chosen = document.documentElement.dataset.theme;
		return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
	}

	/** A value with as many digits as its size needs. */
	function number(value) {
		if (value == null) return "–";
		return Math.abs(value) >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
	}

	/** Shows the same stretch of time everywhere. */
	function zoom(from, to) {
		if (from === range[0] && to === range[1]) return;
		range = [from, to];
		plots.forEach((plot) => plot.setScale("x", { min: from, max: to }));
	}

	function options(chart, width) {
		const style = getComputedStyle(document.documentElement);
		const [muted, line] = ["--muted", "--line"].map((name) => {
			const probe = document.createElement("i");
			probe.style.color = `var(${name})`;
			document.body.append(probe);
			const { color } = getComputedStyle(probe);
			probe.remove();
			return color;
		});
		const font = `12px ${style.fontFamily || "sans-serif"}`;
		const axis = { stroke: muted, font, labelFont: font, labelSize: 20, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
		return {
			width,
			height: HEIGHT,
			cursor: { sync: { key: sync.key }, hover: { prox: 12 }, drag: { x: true, y: false }, bind: { dblclick: () => () => zoom(0, last) } },
			scales: { x: { time: false, range: () => range }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 0) * 1.05 || 1] } },
			axes: [
				{ ...axis, label: "time (s)", size: 30, values: (_, ticks) => ticks.map(number) },
				{ ...axis, label: chart.axis, size: 60, values: (_, ticks) => ticks.map(number) },
			],
			series: [{ label: "time (s)", value: (_, value) => number(value) }, ...chart.lines.map((one, at) => ({
				label: one.name,
				stroke: COLOURS[at % COLOURS.length][isDark() ? 1 : 0],
				dash: at >= COLOURS.length ? [6, 4] : undefined,
				width: 1.5,
				points: { show: one.x.length === 1 },
				spanGaps: true,
				value: (_, value) => number(value),
			}))],
			hooks: { setSelect: [(plot) => {
				if (plot.select.width > 0) zoom(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
			}] },
		};
	}

	const places = charts.map((chart) => {
		const section = document.createElement("section");
		const title = document.createElement("h2");
		title.textContent = chart.title;
		const place = document.createElement("div");
		section.append(title, place);
		main.append(section);
		return place;
	});
	const data = charts.map((chart) => uPlot.join(chart.lines.map((line) => [line.x, line.y])));

	function draw() {
		plots.forEach((plot) => plot.destroy());
		plots = charts.map((chart, at) => new uPlot(options(chart, Math.max(places[at].clientWidth, 200)), data[at], places[at]));
	}

	new ResizeObserver(() => plots.forEach((plot, at) => plot.setSize({ width: Math.max(places[at].clientWidth, 200), height: HEIGHT }))).observe(main);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
	document.getElementById("theme").addEventListener("click", () => {
		document.documentElement.dataset.theme = isDark() ? "light" : "dark";
		draw();
	});
	draw();
})();
