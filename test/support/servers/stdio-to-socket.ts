/** A server on standard input and output that passes both on to a port of loopback, its only argument. */
import { connect } from 'node:net'

const socket = connect(Number(process.argv[2]), '127.0.0.1')
process.stdin.pipe(socket)
socket.pipe(process.stdout)
socket.on('error', () => process.exit(1))
socket.on('close', () => process.exit(0))
