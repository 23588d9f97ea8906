// Quantities as people read them.

function scaled(value, units, base) {
	let at = 0;
	while (value >= base && at < units.length - 1) {
		value /= base;
		at += 1;
	}
	return (value < 10 && at > 0 ? value.toFixed(1) : value.toFixed(0)) + units[at];
}

const NONE = "–";

/** Bits per second. */
export const bps = (value) => (value == null ? NONE : scaled(value, [" bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s"], 1000));

/** Bytes. */
export const bytes = (value) => (value == null ? NONE : scaled(value, [" B", " KiB", " MiB", " GiB", " TiB"], 1024));

/** A duration in microseconds of which 0 is none. */
export function us(value) {
	if (!value) return NONE;
	if (value < 1000) return `${value} µs`;
	if (value < 1e6) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} ms`;
	return `${(value / 1e6).toFixed(value < 1e7 ? 2 : 1)} s`;
}

/** A number of things. */
export const count = (value) => (value == null ? NONE : value.toLocaleString("en", { maximumFractionDigits: 0 }));

/** A number of things of that name. */
export const of = (value, name) => `${count(value)} ${name}${value === 1 ? "" : "s"}`;

/** So many per second; what is rare keeps its digit behind the point. */
export const perSecond = (value) => (value > 0 && value < 10 ? value.toFixed(1) : count(value));

/** A part of a whole, in percent. */
export const percent = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(part * 10 < whole && part > 0 ? 1 : 0)} %` : NONE);

/** A duration in seconds, in its largest unit. */
export function span(seconds) {
	if (seconds < 120) return `${Math.round(seconds)} s`;
	if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
	if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
	return `${Math.floor(seconds / 86_400)} days`;
}

/** How a flow's state is coloured. */
export function stateClass(word) {
	if (word === "controlled") return "chip good";
	if (["bypass", "stored", "unstored", "reclaimed"].includes(word)) return "chip warn";
	return "chip";
}
