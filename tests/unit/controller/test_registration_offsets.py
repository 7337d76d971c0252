"""Where registrations lie: known from the first record that names an incarnation until the broker is gone."""

from __future__ import annotations

from typing import Any

from kraft.controller.brokers.registration_offsets import RegistrationOffsets
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.records.register_broker_record import RegisterBrokerRecord
from kraft.metadata.records.unregister_broker_record import UnregisterBrokerRecord


def test_the_first_registration_offset_of_an_incarnation_is_kept_until_it_is_unregistered() -> None:
    offsets = RegistrationOffsets()
    image = MetadataImage()

    def replay(offset: int, record: Any) -> int | None:
        nonlocal image
        image, changes = image.replay_batch([record])
        offsets.committed(changes, image, offset)
        offsets.claimed()
        return offsets.of(1)

    assert offsets.of(1) is None
    assert replay(5, RegisterBrokerRecord(broker_id=1, broker_epoch=5, fenced=True)) == 5
    assert replay(6, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1)) == 5, (
        "unfenced: the same incarnation"
    )
    assert replay(7, RegisterBrokerRecord(broker_id=2, broker_epoch=7, fenced=True)) == 5
    assert replay(9, RegisterBrokerRecord(broker_id=1, broker_epoch=9, fenced=True)) == 9
    assert replay(10, UnregisterBrokerRecord(broker_id=1, broker_epoch=9)) is None


def test_registration_offsets_of_uncommitted_records_are_dropped_with_the_role() -> None:
    offsets = RegistrationOffsets()
    committed, changes = MetadataImage().replay_batch([RegisterBrokerRecord(broker_id=1, broker_epoch=5, fenced=True)])
    offsets.committed(changes, committed, 5)
    offsets.claimed()
    for record in (
        UnregisterBrokerRecord(broker_id=1, broker_epoch=5),
        RegisterBrokerRecord(broker_id=2, broker_epoch=6, fenced=True),
    ):
        appended, changes = committed.replay_batch([record])
        offsets.appended(changes, appended, 6)
    assert (offsets.of(1), offsets.of(2)) == (None, 6)
    offsets.claimed()
    assert (offsets.of(1), offsets.of(2)) == (5, None)
