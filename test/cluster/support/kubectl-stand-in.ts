import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The program's source. `port-forward` connects to the pod at ADDRESS, as a kubelet does; all other commands print
 * their arguments.
 */
const program = (address: string) => `#!${process.execPath}
const { connect, createServer } = require('node:net')
const [verb, ...args] = process.argv.slice(2)
if (verb === 'port-forward') {
  const port = Number(args.at(-1).slice(1))
  const server = createServer((socket) => {
    const upstream = connect(port, '${address}')
    socket.on('error', () => upstream.destroy())
    upstream.on('error', () => socket.destroy())
    socket.pipe(upstream).pipe(socket)
  })
  server.listen(0, '127.0.0.1', () => {
    console.log('Forwarding from 127.0.0.1:' + server.address().port + ' -> ' + port)
  })
} else {
  console.log([verb, ...args].join('\\n'))
}
`

/**
 * Writes a program `kubectl` into the folder, for commands that need a kubelet: port-forward connects to the pod at
 * `address`, all others print their arguments. Returns the folder, for the PATH.
 */
export function kubectlStandIn(folder: string, address: string): string {
  const path = join(folder, 'stand-in')
  mkdirSync(path)
  writeFileSync(join(path, 'kubectl'), program(address), { mode: 0o755 })
  return path
}
