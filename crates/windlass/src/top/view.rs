//! The picture: totals by rule on top, flows below.

use super::look::{Look, Order, Row, Total};
use crate::print;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::Line,
    widgets::{self, Cell, Table, TableState},
};

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const MARKED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Totals of more rules than these leave the screen to the flows.
const TOTALS_AT_ONCE: usize = 8;

/// Title, order it stands for, width.
type Column = (&'static str, Option<Order>, Constraint);

const FLOW_COLUMNS: [Column; 13] = [
    ("rule", Some(Order::Rule), Constraint::Fill(2)),
    ("iface", None, Constraint::Fill(1)),
    ("sender", Some(Order::Sender), Constraint::Fill(3)),
    ("receiver", None, Constraint::Fill(3)),
    ("state", None, Constraint::Length(7)),
    ("alg", None, Constraint::Length(6)),
    ("rate", Some(Order::Rate), Constraint::Length(8)),
    ("srtt", Some(Order::Srtt), Constraint::Length(8)),
    ("cwnd", Some(Order::Cwnd), Constraint::Length(7)),
    ("inflight", Some(Order::Inflight), Constraint::Length(8)),
    ("lost", Some(Order::Lost), Constraint::Length(7)),
    ("repaired", Some(Order::Repaired), Constraint::Length(8)),
    ("own rtx", None, Constraint::Length(7)),
];

const TOTAL_COLUMNS: [Column; 9] = [
    ("rule", None, Constraint::Fill(1)),
    ("flows", None, Constraint::Length(7)),
    ("controlled", None, Constraint::Length(10)),
    ("rate", None, Constraint::Length(8)),
    ("inflight", None, Constraint::Length(9)),
    ("stored", None, Constraint::Length(9)),
    ("lost", None, Constraint::Length(9)),
    ("repaired", None, Constraint::Length(9)),
    ("own rtx", None, Constraint::Length(9)),
];

/// What the user has chosen.
#[derive(Debug, Default)]
pub struct Choice {
    pub order: Order,
    /// The marked flow, and with it what part of a long list is shown.
    pub table: TableState,
}

fn kib(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{}k", bytes >> 10)
    } else {
        format!("{:.1}M", bytes as f64 / f64::from(1 << 20))
    }
}

fn total_cells(t: &Total) -> [String; TOTAL_COLUMNS.len()] {
    [
        t.rule_name.clone(),
        t.flows.to_string(),
        t.controlled.to_string(),
        print::bps(t.rate_bps),
        kib(t.inflight_bytes),
        kib(t.stored_bytes),
        t.lost_segs.to_string(),
        t.repaired_segs.to_string(),
        t.sender_retrans_segs.to_string(),
    ]
}

/// What is done with the flow now: its mode, unless it is bypassed.
fn state(row: &Row) -> &'static str {
    match (row.flow.mode, row.flow.state) {
        ("transparent", "active") => "control",
        ("transparent", other) => other,
        (mode, _) => mode,
    }
}

fn flow_cells(row: &Row) -> [String; FLOW_COLUMNS.len()] {
    let f = &row.flow;
    [
        row.rule_name.clone(),
        row.iface.clone(),
        f.sender.to_string(),
        f.receiver.to_string(),
        state(row).into(),
        f.algorithm.into(),
        row.rate_bps.map_or("-".into(), print::bps),
        print::us(f.srtt_us),
        kib(f.cwnd_bytes.into()),
        kib(f.inflight_bytes.into()),
        f.lost_segs.to_string(),
        f.repaired_segs.to_string(),
        f.sender_retrans_segs.to_string(),
    ]
}

fn table<const N: usize>(
    columns: &[Column; N],
    chosen: Option<Order>,
    rows: Vec<[String; N]>,
) -> Table<'static> {
    let titles = columns.iter().map(|(title, order, _)| {
        let is_chosen = order.is_some() && *order == chosen;
        Cell::from(*title).style(if is_chosen { MARKED } else { BOLD })
    });
    let widths: Vec<Constraint> = columns.iter().map(|(_, _, width)| *width).collect();
    Table::new(rows.into_iter().map(widgets::Row::new), widths)
        .header(widgets::Row::new(titles))
        .column_spacing(1)
}

/// Draws it all; `look.flows` are sorted already.
pub fn draw(frame: &mut Frame, look: &Look, choice: &mut Choice) {
    let totals = look.totals.len().min(TOTALS_AT_ONCE) as u16;
    let areas: [Rect; 5] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(totals + 1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let title = format!("windlass: {} flows under {} rules", look.flows.len(), look.totals.len());
    frame.render_widget(Line::styled(title, BOLD), areas[0]);
    frame.render_widget(table(&TOTAL_COLUMNS, None, look.totals.iter().map(total_cells).collect()), areas[1]);
    let rows = look.flows.iter().map(flow_cells).collect();
    let flows = table(&FLOW_COLUMNS, Some(choice.order), rows).row_highlight_style(MARKED);
    frame.render_stateful_widget(flows, areas[3], &mut choice.table);
    frame.render_widget(Line::raw("s, left, right: sort   up, down: scroll   q: quit"), areas[4]);
}
