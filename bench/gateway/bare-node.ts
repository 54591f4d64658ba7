/**
 * The least that a proxy on node:http and undici does, without a router. The gateway's difference to it is the price of
 * reading messages. Usage: bare-node.ts BACKEND-PORT
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Dispatcher } from 'undici'
import { createDispatcher } from '../../dataplane/net/connect.ts'

const dispatcher = createDispatcher({ origin: `http://127.0.0.1:${process.argv[2]}`, allowPrivateIP: true })

class Answer implements Dispatcher.DispatchHandler {
  readonly #outgoing: ServerResponse
  #body: Buffer = Buffer.alloc(0)

  constructor(outgoing: ServerResponse) {
    this.#outgoing = outgoing
  }

  onRequestStart() {}
  onResponseStart() {}

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer) {
    this.#body = this.#body.length === 0 ? chunk : Buffer.concat([this.#body, chunk])
  }

  onResponseEnd() {
    const body = this.#body
    this.#outgoing.writeHead(200, ['content-type', 'application/json', 'content-length', String(body.length)])
    this.#outgoing.end(body.toString('latin1'), 'latin1')
  }

  onResponseError() {
    this.#outgoing.destroy()
  }
}

const server = createServer({ noDelay: true, keepAliveTimeout: 75_000 }, (incoming, outgoing) => {
  let body: Buffer = Buffer.alloc(0)
  incoming.on('data', (chunk: Buffer) => {
    body = body.length === 0 ? chunk : Buffer.concat([body, chunk])
  })
  incoming.on('end', () => {
    const headers = ['content-type', 'application/json', 'accept', 'application/json, text/event-stream']
    dispatcher.dispatch({ path: '/mcp', method: 'POST', headers, body }, new Answer(outgoing))
  })
})
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('message', () => process.send?.({ cpu: process.cpuUsage(), rss: process.memoryUsage.rss() }))
process.on('disconnect', () => process.exit())
