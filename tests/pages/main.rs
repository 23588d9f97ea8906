//! The pages that an operator reads: every command in a block for a shell works as it is printed, in a fresh shell, on a machine with
//! a server behind `tap0` and the Internet behind `eth0`. What cannot be run here is marked in the page, with the reason.

mod machine;
mod manifests;
mod page;

use machine::Machine;
use page::{Kind, Page, pages};
use windlass_tests::is_root_or_skip;

fn follow(test: &str, file: &str) {
    if !is_root_or_skip(test) {
        return;
    }
    let page = Page::read(file);
    let Some(mut machine) = Machine::new(test) else { return };
    for block in page.blocks() {
        for command in block.before() {
            machine.run(file, &command);
        }
        for command in &block.commands {
            if block.mark(command).is_none() {
                machine.run(file, command);
            }
        }
        machine.clean();
    }
}

#[test]
fn the_commands_of_the_readme_work_as_printed() {
    follow("the_commands_of_the_readme_work_as_printed", "README.md");
}

#[test]
fn the_commands_of_the_operations_page_work_as_printed() {
    follow("the_commands_of_the_operations_page_work_as_printed", "docs/operations.md");
}

#[test]
fn the_commands_of_the_policy_page_work_as_printed() {
    follow("the_commands_of_the_policy_page_work_as_printed", "docs/policy.md");
}

#[test]
fn the_commands_of_the_native_page_work_as_printed() {
    follow("the_commands_of_the_native_page_work_as_printed", "docs/native.md");
}

#[test]
fn the_commands_of_the_guests_page_work_as_printed() {
    follow("the_commands_of_the_guests_page_work_as_printed", "docs/guests.md");
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn the_commands_of_the_quick_start_of_libvirt_work_as_printed() {
    follow("the_commands_of_the_quick_start_of_libvirt_work_as_printed", "docs/quickstart/libvirt.md");
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn the_commands_of_the_quick_start_of_docker_work_as_printed() {
    follow("the_commands_of_the_quick_start_of_docker_work_as_printed", "docs/quickstart/docker.md");
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn the_commands_of_the_quick_start_of_router_work_as_printed() {
    follow("the_commands_of_the_quick_start_of_router_work_as_printed", "docs/quickstart/router.md");
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn the_commands_of_the_quick_start_of_kubernetes_work_as_printed() {
    follow("the_commands_of_the_quick_start_of_kubernetes_work_as_printed", "docs/quickstart/kubernetes.md");
}

#[test]
fn the_commands_of_the_quick_start_of_sockets_work_as_printed() {
    follow("the_commands_of_the_quick_start_of_sockets_work_as_printed", "docs/quickstart/sockets.md");
}

#[test]
fn every_command_of_a_page_is_in_a_block_for_a_shell_and_every_mark_has_its_command_and_its_reason() {
    for file in pages() {
        let page = Page::read(file);
        let outside = page.commands_outside();
        assert!(outside.is_empty(), "{file}: commands outside of ```sh blocks: {outside:?}");
        for block in page.blocks() {
            for mark in &block.marks {
                assert!(
                    !mark.reason.is_empty() || mark.kind == Kind::Before,
                    "{file}: {mark:?} has no reason"
                );
                let is_of_block = block.commands.iter().any(|command| command.starts_with(&mark.command));
                assert!(
                    is_of_block || mark.kind == Kind::Before,
                    "{file}: {mark:?} is of no command of its block"
                );
            }
        }
    }
}

#[test]
fn the_policies_of_a_page_are_sound() {
    for file in pages() {
        for text in Page::read(file).policies() {
            windlass_agent::Policy::parse(file, &text).unwrap_or_else(|why| panic!("{why}: {text}"));
        }
    }
}
