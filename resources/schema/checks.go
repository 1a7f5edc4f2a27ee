package schema

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// maxWhole is the largest integer up to which float64 represents every integer exactly.
var maxWhole = new(big.Float).SetInt64(1 << 53)

// CheckWhole accepts whole numbers.
func CheckWhole(v cty.Value) error {
	n := v.AsBigFloat()
	if !n.IsInt() {
		return fmt.Errorf("%s is not a whole number", n.Text('g', 10))
	}
	if new(big.Float).Abs(n).Cmp(maxWhole) > 0 {
		return fmt.Errorf("%s is too large", n.Text('g', 10))
	}
	return nil
}

// CheckPort accepts the numbers of ports.
func CheckPort(v cty.Value) error {
	if err := CheckWhole(v); err != nil {
		return err
	}
	if n, _ := v.AsBigFloat().Int64(); n < 1 || n > 65535 {
		return fmt.Errorf("%d is not a port; use a number from 1 to 65535", n)
	}
	return nil
}

// CheckNotEmpty rejects an empty string, list or map.
func CheckNotEmpty(v cty.Value) error {
	if v.Type() == cty.String && v.AsString() == "" {
		return errors.New("the text is empty")
	}
	if v.CanIterateElements() && v.LengthInt() == 0 {
		return errors.New("there must be at least one")
	}
	return nil
}

// CheckPath accepts the path of a file.
func CheckPath(v cty.Value) error {
	if strings.ContainsAny(v.AsString(), "\x00\r\n") {
		return errors.New("the path contains a line break or a null byte")
	}
	return CheckNotEmpty(v)
}
