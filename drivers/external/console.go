package external

import (
	"context"
	"errors"

	"github.com/npctl/npctl/drivers"
)

// consoleReader adds drivers.Console.
type consoleReader struct{ of *cloud }

var _ drivers.Console = consoleReader{}

// longestConsole is the limit of drivers.Console.
const longestConsole = 64 << 10

// ConsoleLog implements drivers.Console.
func (o consoleReader) ConsoleLog(ctx context.Context, id string) (string, error) {
	var log string
	err := o.of.call(ctx, request{Call: callConsole, ID: id}, func(got response) error {
		if got.Console == nil {
			return errors.New(`console: the response has no "console"`)
		}
		log = *got.Console
		return nil
	})
	return log[max(0, len(log)-longestConsole):], err
}
