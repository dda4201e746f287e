//! Tests of the machine module on the present machine, and of descriptions of devices that it lacks.

use std::fs::File;
use std::path::Path;

use super::device::is_virtual;
use super::*;

#[test]
fn what_a_virtual_disk_is_made_of_is_not_known() {
    for (sys, virtual_disk) in [
        ("/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda", true),
        ("/sys/devices/vbd-51712/block/xvda/xvda1", true),
        ("/sys/devices/virtual/block/loop3", true),
        ("/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda1", false),
        ("/sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1", false),
        ("/sys/devices/virtual/block/dm-0", false),
    ] {
        assert_eq!(is_virtual(Path::new(sys)), virtual_disk, "{sys}");
    }
    // In a virtual machine the rotational flag of any disk is unknown.
    let dir = tempfile::tempdir_in(".").unwrap();
    let device = Device { name: "d".to_owned(), sys: vec![dir.path().to_owned()] };
    std::fs::create_dir(dir.path().join("queue")).unwrap();
    std::fs::write(dir.path().join("queue/rotational"), "1\n").unwrap();
    assert_eq!(device.rotational(false), Some(true));
    assert_eq!(device.rotational(true), None);
}

#[test]
fn a_file_is_resident_after_reading_and_not_after_eviction() {
    let dir = tempfile::tempdir_in(".").unwrap();
    std::fs::write(dir.path().join("file"), vec![1; 1 << 20]).unwrap();
    sync_filesystem(dir.path()).unwrap();
    assert_eq!(resident_share(dir.path()), 1.0);
    let sum = allocated(dir.path(), |path| path.starts_with("log"));
    assert!(sum.all >= 1 << 20 && sum.logs == 0, "{sum:?}");
    std::fs::create_dir(dir.path().join("log")).unwrap();
    std::fs::write(dir.path().join("log/1"), vec![7; 100_000]).unwrap();
    File::open(dir.path().join("log/1")).unwrap().sync_all().unwrap();
    let more = allocated(dir.path(), |path| path.starts_with("log"));
    assert!(more.logs >= 100_000 && more.directories >= sum.directories, "{more:?}");
    assert_eq!(more.all - more.logs - more.directories, sum.all - sum.directories);
    if !is_in_memory(dir.path()) {
        evict(dir.path());
        assert!(resident_share(dir.path()) < 0.1);
    }
}

#[test]
fn the_machine_has_processors_and_memory() {
    let machine = facts(Path::new("."));
    assert!(machine.processors >= 1 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
    assert!(busy_ns().is_some_and(|busy| busy > 0));
    // A program linked to glibc reports a version that begins with 2.
    #[cfg(target_env = "gnu")]
    assert!(machine.libc.as_deref().is_some_and(|libc| libc.starts_with("glibc 2.")), "{:?}", machine.libc);
}

#[test]
fn what_this_process_moves_is_counted_as_its_own() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("file");
    if Device::for_dir(dir.path()).is_none() {
        return;
    }
    let own = || process_io("self").unwrap();
    let write = |_| {
        let before = own();
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        own().beyond(&before).written_bytes
    };
    // Other tests of this process may delete files before they are written back.
    assert!((0..20).map(write).any(|written| written >= 1 << 20));
    evict(dir.path());
    let before = (own(), Device::for_dir(dir.path()).unwrap().disk_io().unwrap());
    std::fs::read(&path).unwrap();
    let after = (own(), Device::for_dir(dir.path()).unwrap().disk_io().unwrap());
    let (ours, disks) = (after.0.beyond(&before.0), after.1.beyond(&before.1));
    assert!(ours.read_bytes >= 1 << 20 && disks.read_bytes >= 1 << 20, "{ours:?} {disks:?}");
}
