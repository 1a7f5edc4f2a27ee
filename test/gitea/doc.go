// Package gitea tests npctl review with a real Gitea.
package gitea
