package wire

import "golang.org/x/sys/unix"

// acked returns how many bytes the other end has acknowledged.
func acked(fd int) (int64, error) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, err
	}
	return int64(info.Bytes_acked), nil
}
