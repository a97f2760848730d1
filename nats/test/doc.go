// Package natstest tests package pawlnats with embedded servers, with servers and workers that are processes
// and are killed, and has its example. It is a module of its own, so that who uses pawlnats does not
// depend on the server.
package natstest
