/**
 * The least that a proxy on node:http does, server and client: it pipes requests and answers. Usage: bare-http.ts
 * BACKEND-PORT
 */
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'

const agent = new Agent({ keepAlive: true })
const backend = { host: '127.0.0.1', port: Number(process.argv[2]), agent }

const server = createServer({ noDelay: true, keepAliveTimeout: 75_000 }, (incoming, outgoing) => {
  const { method, url: path, headers } = incoming
  const forwarded = request({ ...backend, method, path, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode as number, answer.headers)
    answer.pipe(outgoing)
  })
  forwarded.once('error', () => outgoing.destroy())
  incoming.pipe(forwarded)
})
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit())
