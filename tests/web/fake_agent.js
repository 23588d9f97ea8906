// In the place of an agent: flows that were never there, as many as wanted, which change at each look. It answers the questions of
// crates/windlass/src/readers/question.rs.

import { createServer } from "node:net";

const RULES = [["cdn", "bbr3"], ["wan", "bbr"], ["database", "dctcp"], ["tenants", "cubic"]];
const GROUPS = [["tenants", "ccc", 40], ["backup", "multcp", 12]];
const MBIT = 1e6;

/** Numbers that are the same at each run. */
function random(seed) {
	return () => {
		seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
		return seed / 2 ** 32;
	};
}

function made(at, next) {
	const [rule_name, algorithm] = RULES[Math.floor(next() ** 2 * RULES.length)];
	const word = next() < 0.9 ? "controlled" : next() < 0.6 ? "watched" : next() < 0.5 ? "paces" : "bypass";
	const min_rtt_us = Math.round(2000 + 90_000 * next() ** 2);
	return {
		iface: `tap${at % 8}`, rule_name, sender: `10.0.${at % 8}.${10 + (at % 200)}:443`,
		receiver: `198.51.${100 + (at % 7)}.${1 + (at % 250)}:${40_000 + (at % 20_000)}`, first_seq: at, state: word === "bypass" ? "bypass" : "active",
		mode: word === "controlled" || word === "bypass" ? "transparent" : "watch", only_watched: word === "paces" ? "paces" : null, algorithm,
		has_own_algorithm: false, rule: 0, cwnd_bytes: Math.round(14_480 * (1 + 30 * next())), pacing_bps: 20 * MBIT, srtt_us: 0, min_rtt_us,
		inflight_bytes: 0, unacked_bytes: 0, stored_bytes: 0, held_bytes: 65_536, mss_bytes: 1448, rcv_wscale: 7, room_bytes: 0,
		delivered_bytes_mod_2_32: 0, lost_segs: 0, repaired_segs: 0, sender_retrans_segs: 0, group: rule_name === "tenants" ? { name: "tenants", weight: 2, per: "server", share_bytes: 50_000 } : null,
		rate_bps: null, word, base: 0.2 * MBIT * (1 + 40 * next() ** 6),
	};
}

export class FakeAgent {
	constructor(socket, count) {
		this.socket = socket;
		this.next = random(7);
		this.flows = Array.from({ length: count }, (_, at) => made(at, this.next));
		this.began = Date.now();
		this.lookedAt = 0;
		this.asked = {};
		this.answers = [];
		this.look();
	}

	/** A flow begins now, to this port. */
	add(port) {
		const flow = made(this.flows.length, () => 0.1);
		this.flows.push({ ...flow, receiver: `203.0.113.9:${port}` });
	}

	look() {
		const now = Date.now();
		const seconds = Math.min(2, (now - this.lookedAt) / 1000);
		if (seconds < 0.4) return;
		this.lookedAt = now;
		const wave = 1 + 0.15 * Math.sin(now / 4000);
		for (const flow of this.flows) {
			flow.rate_bps = Math.round(flow.base * wave * (0.8 + 0.4 * this.next()));
			flow.delivered_bytes_mod_2_32 = (flow.delivered_bytes_mod_2_32 + (flow.rate_bps * seconds) / 8) >>> 0;
			flow.srtt_us = Math.round(flow.min_rtt_us * (1.05 + 0.3 * this.next()));
			flow.inflight_bytes = Math.round(flow.cwnd_bytes * (0.6 + 0.4 * this.next()));
			flow.stored_bytes = flow.word === "controlled" ? flow.inflight_bytes : 0;
			if (this.next() < 0.04 && flow.word === "controlled") {
				flow.lost_segs += 3;
				flow.repaired_segs += 3;
			}
		}
	}

	t_ms() {
		return this.lookedAt - this.began;
	}

	usage() {
		return { store_bytes: 2 ** 32 - 2 ** 20, store_used_bytes: this.flows.reduce((sum, flow) => sum + flow.stored_bytes, 0) / 2, flows_max: 65_536, flows_used: this.flows.length, flows_without_rule: 12 };
	}

	overview() {
		const [states, totals] = [{}, new Map()];
		for (const flow of this.flows) {
			states[flow.word] = (states[flow.word] ?? 0) + 1;
			const zero = { rule_name: flow.rule_name, flows: 0, controlled: 0, rate_bps: 0, inflight_bytes: 0, stored_bytes: 0, lost_segs: 0, repaired_segs: 0, sender_retrans_segs: 0 };
			const total = totals.get(flow.rule_name) ?? zero;
			totals.set(flow.rule_name, total);
			total.flows += 1;
			total.controlled += flow.word === "controlled" ? 1 : 0;
			for (const key of ["rate_bps", "inflight_bytes", "stored_bytes", "lost_segs", "repaired_segs"]) total[key] += flow[key];
		}
		const rate = this.flows.reduce((sum, flow) => sum + flow.rate_bps, 0) / 8;
		return {
			t_ms: this.t_ms(), took_us: 41_000, flows: this.flows.length, states, totals: [...totals.values()],
			datapaths: [{ interfaces: "tap0 and 7 more", count: 8, use: this.usage() }], groups: GROUPS.length, one_way: {},
			per_s: { stored_bytes: rate * 0.93, watched_bytes: rate * 0.07, lost_segs: 3100 + 700 * this.next(), repaired_segs: 3080 + 700 * this.next(), sender_retrans: 24 * this.next() },
			agent: { process: 4711, version: "0.1.0", runs_for_s: 93_600, is_ready: true, words: "8 interface(s) under control", policy_hash: "5f1c".repeat(16) },
		};
	}

	page({ filter, sort, reverse, offset, limit }) {
		let rows = this.flows;
		const words = filter.split(/\s+/).filter((word) => word && word !== "and");
		for (let at = 0; at < words.length; at += 2) {
			const value = words[at + 1];
			const tests = { state: (f) => f.word === value, rule: (f) => f.rule_name === value, dport: (f) => f.receiver.endsWith(`:${value}`), src: (f) => f.sender.startsWith(value) };
			if (!tests[words[at]]) return ["refused", `'${words[at]}' begins no term of a filter; a term can be: state WORD, rule NAME`];
			rows = rows.filter(tests[words[at]]);
		}
		const keys = { rate: "rate_bps", srtt: "srtt_us", min_rtt: "min_rtt_us", cwnd: "cwnd_bytes", inflight: "inflight_bytes", lost: "lost_segs", repaired: "repaired_segs", "sender-rtx": "sender_retrans_segs" };
		const key = keys[sort] ?? { state: "word", rule: "rule_name", alg: "algorithm" }[sort] ?? sort;
		const order = keys[sort] ? (a, b) => b[key] - a[key] : (a, b) => String(a[key]).localeCompare(String(b[key]));
		rows = [...rows].sort((a, b) => (reverse ? order(b, a) : order(a, b)));
		return ["document", { t_ms: this.t_ms(), flows: this.flows.length, matching: rows.length, offset, rows: rows.slice(offset, offset + limit) }];
	}

	flow({ iface, sender, receiver }) {
		const flow = this.flows.find((one) => one.iface === iface && one.sender === sender && one.receiver === receiver);
		if (!flow) return ["nothing", `no flow from ${sender} to ${receiver} behind ${iface}`];
		const limits = { idle: 10, application: 40, sender: 0, receiver: 0, window: 790, recovery: 160, group: 0, uncontrolled: 0 };
		const decided = [["held back by: window", 0.4], ["window reduced: a loss", 1.9], ["held back by: recovery", 2.0], ["start: the pipe is full", 31]];
		return ["document", {
			t_us: (Date.now() - this.began) * 1000, word: flow.word, flow,
			why: {
				cause: "loss", words: "the path loses packets without a queue", cure: "bbr or bbr3, which do not take single losses for congestion", state: "active", reason: null,
				reason_words: null, noted_for_us: 48e6, is_partial: true, limited_permille: { last_1s: limits, last_10s: limits, life: limits }, window_bytes: flow.cwnd_bytes,
				flight_bytes: flow.inflight_bytes, flight_max_bytes: flow.cwnd_bytes, receiver_window_bytes: 6_291_456, pacing_bps: flow.pacing_bps, delivery_bps: flow.rate_bps,
				min_rtt_us: flow.min_rtt_us, srtt_us: flow.srtt_us, rtt_p50_us: flow.srtt_us, sender_side_rtt_us: 180, delivered_bytes: 9e7, lost_segs: 12, repaired_segs: 12,
				sender_retrans_segs: 0, sender_timeouts: 0, decisions: decided.map(([what, ago]) => ({ ago_us: ago * 1e6, what, cwnd_bytes: flow.cwnd_bytes })),
			},
		}];
	}

	counters() {
		const names = [["stored_bytes", "payload bytes stored"], ["lost_segs", "segments found lost"], ["repaired_segs", "segments retransmitted from the store"], ["pass_not_tcp", "passed: not TCP over IPv4 or IPv6"], ["undos", "spurious reductions undone"]];
		const of = ([name, meaning], at) => ({ name, meaning, count: at === 4 ? 0 : 10 ** (9 - at) + this.t_ms(), per_s: at < 3 ? 10 ** (6 - at) : 0 });
		return { t_ms: this.t_ms(), datapaths: [{ interfaces: "tap0 and 7 more", counters: names.map(of) }] };
	}

	groups() {
		const account = (_, at) => ({ server: `10.0.0.${10 + at}`, client: null, flows: 900 - 40 * at, flows_limit: 3000, held_bytes: (40 - 2 * at) << 20, held_limit_bytes: 64 << 20 });
		return {
			t_ms: this.t_ms(), groups: GROUPS.map(([name, rule, members]) => ({ name, rule, members, window_bytes: members * 40_000, srtt_us: 21_000, rate_bps: members * MBIT })),
			shares: [{ interfaces: "tap0 and 7 more", use: this.usage(), servers: 14, accounts: Array.from({ length: 14 }, account) }],
		};
	}

	answer(question) {
		this.asked[question.ask] = (this.asked[question.ask] ?? 0) + 1;
		this.look();
		switch (question.ask) {
			case "overview": return ["document", this.overview()];
			case "flows": return this.page(question);
			case "flow": return this.flow(question);
			case "groups": return ["document", this.groups()];
			case "counters": return ["document", this.counters()];
			default: return ["refused", "no question"];
		}
	}

	listen() {
		this.server = createServer((stream) => {
			let text = "";
			stream.on("error", () => {});
			stream.on("data", (bytes) => {
				text += bytes;
				if (!text.includes("\n")) return;
				const [word, found] = this.answer(JSON.parse(text));
				stream.end(`${word} ${typeof found === "string" ? found : JSON.stringify(found)}\n`);
			});
		});
		return new Promise((resolve) => this.server.listen(this.socket, resolve));
	}

	end() {
		return new Promise((resolve) => this.server.close(resolve));
	}
}
