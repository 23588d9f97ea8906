// Keys of the whole page. A view's own are its `keys`.

const VIEWS = ["#/", "#/flows", "#/groups", "#/counters"];

/** Does this element take what is typed? */
const isTyping = (element) => element instanceof HTMLElement && element.matches("input:not([type=checkbox]), select, textarea");

export function listen(app) {
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
		if (isTyping(event.target)) {
			if (event.key === "Escape") event.target.blur();
			return;
		}
		const own = app.view.keys?.[event.key];
		const action = own ?? actions(app)[event.key] ?? (VIEWS[event.key - 1] && (() => { location.hash = VIEWS[event.key - 1]; }));
		// links and buttons have their own Enter
		const isPressed = event.key === "Enter" && event.target instanceof HTMLElement && event.target.matches("a, button");
		if (!action || isPressed) return;
		event.preventDefault();
		action();
	});
}

function actions(app) {
	return {
		"/": () => document.querySelector("input[type=search]")?.focus(),
		"?": () => app.help(),
		p: () => app.pause(),
		t: () => app.nextTheme(),
		Escape: () => history.back(),
	};
}
