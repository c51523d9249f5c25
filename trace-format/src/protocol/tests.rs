// SPDX-License-Identifier: Apache-2.0

use proptest::prelude::*;

use super::*;
use crate::container::Consent;

fn hello() -> Hello {
    Hello {
        versions: VERSIONS,
        memory_version: 1,
        name: "com.example.notes".into(),
        ring_bytes: 8 << 20,
        other_bytes: 3 << 20,
        held: 2,
        is_foreground: true,
        taken: 9,
    }
}

fn of_processes() -> Vec<FromProcess> {
    vec![
        FromProcess::Hello(hello()),
        FromProcess::Foreground {
            is_foreground: true,
            tid: 7,
        },
        FromProcess::Held { rings: 3 },
        FromProcess::Trigger(Trigger {
            severity: TriggerSeverity::Stuck,
            detector: "slow-message".into(),
            reason: "a message took 2000 ms".into(),
            tid: 7,
            at_boottime_ns: 1 << 40,
        }),
        FromProcess::Taken {
            report: 5,
            outcome: TakeOutcome::Nothing,
        },
        FromProcess::Farewell,
        FromProcess::Needs { bytes: 5 << 20 },
        FromProcess::Name {
            name: "com.example.notes".into(),
        },
        FromProcess::Named,
        FromProcess::Activities { are_started: true },
    ]
}

fn of_the_service() -> Vec<FromService> {
    vec![
        FromService::Welcome { version: 1 },
        FromService::Refused {
            reason: "too many processes".into(),
        },
        FromService::Configure(Configuration {
            revision: 4,
            call_rings: 1,
            categories: 0xff,
            consent: Consent::Names,
        }),
        FromService::Take { report: 5 },
        FromService::Release { report: 5 },
        FromService::Room { bytes: 6 << 20 },
        FromService::Detectors(DetectorRules {
            revision: 7,
            rules: vec![DetectorRule {
                name: "slow-method".into(),
                numbers: vec![400, 10],
                method: "com.example.Store.load".into(),
            }],
        }),
    ]
}

#[test]
fn messages_come_out_as_they_went_in() {
    for message in of_processes() {
        assert_eq!(FromProcess::decode(&message.encode()), Ok(Some(message)));
    }
    for message in of_the_service() {
        assert_eq!(FromService::decode(&message.encode()), Ok(Some(message)));
    }
}

#[test]
fn a_packet_that_is_cut_is_an_error_and_a_longer_one_is_of_a_newer_build() {
    for message in of_processes() {
        let mut packet = message.encode();
        for length in 0..packet.len() {
            assert!(FromProcess::decode(&packet[..length]).is_err());
        }
        packet.extend([1, 2, 3]);
        assert_eq!(FromProcess::decode(&packet), Ok(Some(message)));
    }
    for message in of_the_service() {
        let mut packet = message.encode();
        for length in 0..packet.len() {
            assert!(FromService::decode(&packet[..length]).is_err());
        }
        packet.extend([1, 2, 3]);
        assert_eq!(FromService::decode(&packet), Ok(Some(message)));
    }
}

#[test]
fn an_unknown_message_is_none() {
    let packet = 99_u32.to_le_bytes();
    assert_eq!(FromProcess::decode(&packet), Ok(None));
    assert_eq!(FromService::decode(&packet), Ok(None));
}

#[test]
fn texts_have_a_limit_on_both_sides() {
    let message = FromService::Refused {
        reason: "é".repeat(MAX_TEXT_BYTES),
    };
    let packet = message.encode();
    let Ok(Some(FromService::Refused { reason })) = FromService::decode(&packet) else {
        panic!("it is not what it was");
    };
    assert_eq!(reason, "é".repeat(MAX_TEXT_BYTES / 2));
    let mut packet = packet[..4].to_vec();
    packet.extend(600_u32.to_le_bytes());
    packet.extend([b'a'; 600]);
    assert!(FromService::decode(&packet).is_err());
    let long = vec![6; MAX_MESSAGE_BYTES + 1];
    assert!(FromProcess::decode(&long).is_err());
}

#[test]
fn what_a_newer_build_says_is_taken_for_the_most_careful_thing() {
    let configure = FromService::Configure(Configuration::default());
    let mut packet = configure.encode();
    let end = packet.len();
    packet[end - 7..].copy_from_slice(b"private");
    let Ok(Some(FromService::Configure(read))) = FromService::decode(&packet) else {
        panic!("it is not what it was");
    };
    assert_eq!(read.consent, Consent::Structure);
}

#[test]
fn the_newest_common_version_is_spoken() {
    assert_eq!(common_version((1, 3), (2, 5)), Some(3));
    assert_eq!(common_version((1, 1), (1, 1)), Some(1));
    assert_eq!(common_version((1, 1), (2, 3)), None);
    assert_eq!(common_version((4, 5), (1, 3)), None);
}

#[test]
fn a_process_that_is_no_app_yet_has_no_final_name() {
    for name in [
        "",
        "zygote64",
        "<pre-initialized>",
        "/system/bin/app_process64",
        "usap32",
    ] {
        assert!(!is_final_name(name), "{name}");
    }
    for name in [
        "com.example.notes",
        "com.example.zygote:remote",
        "system_server",
    ] {
        assert!(is_final_name(name), "{name}");
    }
}

proptest! {
    #[test]
    fn no_packet_panics(packet in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = FromProcess::decode(&packet);
        let _ = FromService::decode(&packet);
    }

    /// A process may get an old packet with changed bytes.
    #[test]
    fn no_changed_packet_panics(which in 0..of_processes().len(), at in 0..64_usize, byte: u8) {
        let mut packet = of_processes()[which].encode();
        let length = packet.len();
        packet[at % length] = byte;
        if let Ok(Some(message)) = FromProcess::decode(&packet) {
            prop_assert_eq!(FromProcess::decode(&message.encode()), Ok(Some(message)));
        }
    }
}
