"""Emulated hypervisors, switches and disks of npctl's OpenStack lab."""
