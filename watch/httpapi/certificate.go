package httpapi

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// fileSize is how much is read of a file with certificates or tokens.
const fileSize = 1 << 20

// lookEvery is how often files are looked at that may have been replaced.
const lookEvery = 2 * time.Second

// certificate is a certificate with its key, which are read anew when they are replaced.
type certificate struct {
	cert, key string

	mu     sync.Mutex // guards what follows
	pair   *tls.Certificate
	stamp  string
	looked time.Time
}

// get implements tls.Config.GetCertificate. A pair that cannot be read leaves the one before in use.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair != nil && time.Since(c.looked) < lookEvery {
		return c.pair, nil
	}
	c.looked = time.Now()
	stamp := fileStamp(c.cert) + fileStamp(c.key)
	if c.pair != nil && stamp == c.stamp {
		return c.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		if c.pair != nil {
			return c.pair, nil
		}
		return nil, fmt.Errorf("certificate %s with key %s: %w", c.cert, c.key, err)
	}
	c.pair, c.stamp = &pair, stamp
	return c.pair, nil
}

// fileStamp tells versions of a file apart.
func fileStamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s;", info.Size(), info.ModTime())
}

// readSmall reads a file that is expected to be small.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, fileSize+1))
	if err == nil && len(text) > fileSize {
		err = fmt.Errorf("%s has more than %d bytes", path, fileSize)
	}
	return text, err
}
