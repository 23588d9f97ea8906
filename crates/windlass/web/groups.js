// Groups, and what servers hold of store and flow table.

import { Rows, h, setText, table } from "./dom.js";
import { bps, bytes, count, of, percent, us } from "./format.js";

const GROUPS = [["Group", ""], ["Rule", "w3"], ["Members", "n"], ["Window", "n"], ["RTT", "n w3"], ["Delivered", "n"]];
const SERVERS = [["Server", ""], ["Flows", "n"], ["May have", "n w3"], ["Holds", "n"], ["May hold", "n"], ["Part of its limit", "bars w2"]];

function rowOf(heads, texts, first) {
	return (value) => {
		const cells = heads.slice(1).map(([, name]) => h("td", { class: name }));
		const element = h("tr", {}, h("th", { scope: "row" }, first(value)), cells);
		return { element, update: (now) => texts(now).forEach((text, at) => setText(cells[at], text)), cells };
	};
}

export function groups(root, app) {
	const body = h("tbody");
	const groupRow = rowOf(GROUPS, (g) => [g.rule, count(g.members), bytes(g.window_bytes || null), us(g.srtt_us), bps(g.rate_bps)], (g) => g.name);
	const groupRows = new Rows(body, groupRow);
	const none = h("p", { class: "empty", hidden: true }, "No rule of the policy has a group.");
	const list = h("section", { class: "card", hidden: true }, h("h2", {}, "Groups"), none, table("Groups whose members share one window", GROUPS, body));
	const shares = h("div", {});
	const serverRow = (value) => {
		const bar = h("i", { class: "bar c-s1" });
		const row = rowOf(SERVERS, (a) => [count(a.flows), count(a.flows_limit), bytes(a.held_bytes), bytes(a.held_limit_bytes)], (a) => h("a", { href: `#/flows?${new URLSearchParams({ filter: `src ${a.server}` })}` }, a.server))(value);
		row.cells.at(-1).append(bar);
		const update = (a) => {
			row.update(a);
			bar.style.width = a.held_limit_bytes ? `${Math.min(100, (100 * a.held_bytes) / a.held_limit_bytes)}%` : "0";
		};
		return { element: row.element, update };
	};
	const datapaths = new Rows(shares, () => {
		const servers = h("tbody");
		const [title, use] = [h("h2"), h("p", { class: "sub" })];
		const rows = new Rows(servers, serverRow);
		const update = (share) => {
			setText(title, `Shares: ${share.interfaces}`);
			const { use: u } = share;
			setText(use, `Store ${bytes(u.store_used_bytes)} of ${bytes(u.store_bytes)} (${percent(u.store_used_bytes, u.store_bytes)}), flow table ${count(u.flows_used)} of ${count(u.flows_max)}, ${count(u.flows_without_rule)} of them without a rule. ${of(share.servers, "server")}; those that hold most come first.`);
			rows.show(share.accounts.map((account) => [account.server, account]));
		};
		return { element: h("section", { class: "card" }, title, use, table("What servers use, and what they may", SERVERS, servers)), update };
	});
	root.append(h("h1", { class: "hidden" }, "Groups"), list, shares);

	const ask = app.asking("groups", root, (data) => {
		list.hidden = false;
		none.hidden = data.groups.length > 0;
		list.lastElementChild.hidden = data.groups.length === 0;
		groupRows.show(data.groups.map((group) => [group.name, group]));
		datapaths.show(data.shares.map((share) => [share.interfaces, share]));
	});
	ask();
	return { title: "Groups", show: ask };
}
