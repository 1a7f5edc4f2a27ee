"""What stands in for hypervisors, switches and disks in npctl's OpenStack lab."""
