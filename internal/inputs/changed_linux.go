package inputs

import "syscall"

func changed(stat *syscall.Stat_t) syscall.Timespec { return stat.Ctim }
