// Package gerrit tests npctl review with a real Gerrit.
package gerrit
