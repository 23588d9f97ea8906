// Elements of the page. No text is ever read as HTML.

/** An element with these attributes (a function is a listener) and children, which are elements or texts. */
export function h(tag, attributes = {}, ...children) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (typeof value === "function") element.addEventListener(name, value);
		else if (value === true) element.setAttribute(name, "");
		else if (value !== false && value != null) element.setAttribute(name, value);
	}
	element.append(...children.flat().filter((child) => child != null));
	return element;
}

/** Gives an element another text, if it is another. */
export function setText(element, text) {
	if (element.textContent !== text) element.textContent = text;
}

/** Gives an element another class for its state, if it is another. */
export function setClass(element, name) {
	if (element.className !== name) element.className = name;
}

/** A table in a region that scrolls sideways where it has no room. */
export function table(caption, heads, body) {
	const head = heads.map(([title, name]) => h("th", { scope: "col", class: name }, title));
	return h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
		h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), body));
}

/** Rows of a table's body, by key: kept where they are the same, so that no row is made anew at each event. */
export class Rows {
	constructor(body, make) {
		this.body = body;
		this.make = make;
		this.rows = new Map();
	}

	/** Shows these [key, value] in their order; `make(value)` returns a row and what updates it. */
	show(entries) {
		const kept = new Map();
		let at = this.body.firstElementChild;
		for (const [key, value] of entries) {
			const row = this.rows.get(key) ?? this.make(value);
			this.rows.delete(key);
			kept.set(key, row);
			row.update(value);
			if (row.element === at) at = at.nextElementSibling;
			else this.body.insertBefore(row.element, at);
		}
		this.rows.forEach((row) => row.element.remove());
		this.rows = kept;
	}
}
