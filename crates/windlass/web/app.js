// The page: events from the server, the view in sight, colours. Nothing is fetched from elsewhere.

import { History, recolor } from "./charts.js";
import { counters } from "./counters.js";
import { h, setText } from "./dom.js";
import { flow } from "./flow.js";
import { flows } from "./flows.js";
import { span } from "./format.js";
import { groups } from "./groups.js";
import { listen } from "./keys.js";
import { overview } from "./overview.js";

const VIEWS = { "": overview, flows, flow, groups, counters };
/** Data that is older, in milliseconds, is called stale. */
const STALE = 2500;
/** A page that is not in sight asks for nothing after so long. */
const HIDDEN = 10_000;

const byId = (id) => document.getElementById(id);
const main = byId("main");

const app = {
	view: {},
	look: null,
	/** Controlled and watched rate; flows, controlled ones; segments lost, repaired, retransmitted by servers. */
	history: new History(7, 600),
	lookedAt: null,
	why: null,
	isPaused: false,

	/** A document below /api/v1/, and the status; 0: nothing answers. */
	async get(path) {
		try {
			const answer = await fetch(`api/v1/${path}`, { signal: AbortSignal.timeout(8000) });
			return { status: answer.status, data: await answer.json() };
		} catch {
			return { status: 0, data: { why: "Nothing answers." } };
		}
	},

	/** Asks for that document, one question at a time, and hands it to `take`; where there is none, the view has the reason. */
	asking(path, root, take) {
		const none = h("p", { class: "empty", hidden: true });
		root.append(none);
		let isAsked = false;
		return async () => {
			if (isAsked) return;
			isAsked = true;
			const { status, data } = await app.get(path);
			isAsked = false;
			if (!root.isConnected) return;
			none.hidden = status !== 404;
			if (status === 404) setText(none, `${data.why[0].toUpperCase()}${data.why.slice(1)}.`);
			if (status === 200) take(data);
		};
	},

	help() {
		byId("help").showModal();
	},

	pause() {
		this.isPaused = !this.isPaused;
		byId("pause").setAttribute("aria-pressed", this.isPaused);
		setText(byId("pause"), this.isPaused ? "Go on" : "Pause");
		if (!this.isPaused && this.look) this.view.show?.(this.look);
		state();
	},

	nextTheme() {
		const all = ["auto", "light", "dark"];
		theme(all[(all.indexOf(document.documentElement.dataset.theme) + 1) % all.length]);
	},
};

function theme(name) {
	document.documentElement.dataset.theme = name;
	setText(byId("theme"), name[0].toUpperCase() + name.slice(1));
	try {
		localStorage.setItem("theme", name);
	} catch { /* a browser that keeps nothing */ }
	recolor();
}

/** How the data in sight is: live, paused, stale, or the agent is gone. */
function state() {
	const age = app.lookedAt == null ? null : performance.now() - app.lookedAt;
	const pill = byId("state");
	const notice = byId("notice");
	const isStale = age != null && age > STALE;
	const aged = age == null ? "" : ` What is shown is ${span(age / 1000)} old.`;
	let [words, cls] = ["live", "good"];
	if (app.isPaused) [words, cls] = ["paused", "warn"];
	else if (app.why) [words, cls] = ["no agent", "bad"];
	else if (age == null) [words, cls] = ["connecting", ""];
	else if (isStale) [words, cls] = ["stale", "warn"];
	setText(pill, words);
	pill.className = `pill ${cls}`;
	notice.hidden = !app.why && !isStale;
	// that of a demo leaves nothing behind
	const stays = document.querySelector(".given") ? "" : " What was under control stays so, without an agent.";
	if (app.why) setText(notice, `${app.why[0].toUpperCase()}${app.why.slice(1)}.${stays}${aged}`);
	else if (isStale) setText(notice, `Nothing came from windlass web for ${span(age / 1000)}.`);
	main.classList.toggle("old", Boolean(app.look) && (Boolean(app.why) || isStale));
}

function take(look) {
	// at its first look the agent has nothing to compare with
	const per = (name) => (Object.keys(look.per_s).length ? (look.per_s[name] ?? 0) : null);
	app.why = null;
	app.lookedAt = performance.now();
	// the agent has not looked again yet
	if (look.t_ms === app.look?.t_ms) return state();
	app.look = look;
	app.history.add(bits(per("stored_bytes")), bits(per("watched_bytes")), look.flows, look.states.controlled ?? 0, per("lost_segs"), per("repaired_segs"), per("sender_retrans"));
	if (!app.isPaused) app.view.show?.(look);
	state();
}

const bits = (bytes) => (bytes == null ? null : bytes * 8);

let source = null;

function connect() {
	if (source) return;
	source = new EventSource("api/v1/events");
	source.addEventListener("overview", (event) => take(JSON.parse(event.data)));
	source.addEventListener("gone", (event) => {
		app.why = JSON.parse(event.data).why;
		state();
	});
	source.addEventListener("error", () => {
		// one that was refused is not tried again by itself
		if (source?.readyState === EventSource.CLOSED) {
			source = null;
			setTimeout(connect, 2000);
		}
	});
}

let hiding;
document.addEventListener("visibilitychange", () => {
	clearTimeout(hiding);
	if (!document.hidden) return connect();
	hiding = setTimeout(() => {
		source?.close();
		source = null;
	}, HIDDEN);
});

function route() {
	const [, path, query] = location.hash.match(/^#\/([^?]*)\??(.*)$/) ?? ["", "", ""];
	app.view.end?.();
	const root = h("div", { class: `view ${path || "overview"}` });
	main.replaceChildren(root);
	main.scrollTop = 0;
	const make = VIEWS[path] ?? overview;
	app.view = make(root, app, new URLSearchParams(query));
	document.title = `${app.view.title} – Windlass`;
	for (const link of document.querySelectorAll("nav a")) {
		const own = link.hash.slice(2);
		if (own === path || (own === "flows" && path === "flow")) link.setAttribute("aria-current", "page");
		else link.removeAttribute("aria-current");
	}
	if (app.look) app.view.show?.(app.look);
}

let kept = "auto";
try {
	kept = localStorage.getItem("theme") ?? "auto";
} catch { /* a browser that keeps nothing */ }
theme(["light", "dark"].includes(kept) ? kept : "auto");
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);
byId("theme").addEventListener("click", () => app.nextTheme());
byId("pause").addEventListener("click", () => app.pause());
byId("help-button").addEventListener("click", () => app.help());
document.querySelector(".skip").addEventListener("click", (event) => {
	event.preventDefault();
	main.focus();
});
window.addEventListener("hashchange", route);
listen(app);
route();
connect();
setInterval(state, 1000);
