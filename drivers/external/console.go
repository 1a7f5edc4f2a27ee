package external

import (
	"context"
	"errors"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// consoleReader adds drivers.Console.
type consoleReader struct{ of *cloud }

var _ drivers.Console = consoleReader{}

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
	return cloudkit.Console(log), err
}
