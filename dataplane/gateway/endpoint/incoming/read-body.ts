import type { IncomingMessage, ServerResponse } from 'node:http'
import type { EndpointRequest } from './endpoint-request.ts'

/** Where a request is found from Node's objects, so that no listener needs a closure of its own. */
const key = Symbol('request')

interface Incoming extends IncomingMessage {
  [key]?: EndpointRequest
}

interface Outgoing extends ServerResponse {
  [key]?: EndpointRequest
}

/** Called when a body is whole. */
type Next = (request: EndpointRequest) => void

/** Makes the function that reads a request's body and then goes on with `next`. */
export function bodyReader(next: Next): (request: EndpointRequest) => void {
  function onEnd(this: Incoming): void {
    this[key]?.run(next)
  }
  return (request) => {
    const req: Incoming = request.req
    req[key] = request
    req.on('data', onData)
    req.on('end', onEnd)
    const res: Outgoing = request.res
    res[key] = request
    res.on('close', onClose)
  }
}

function onData(this: Incoming, chunk: Buffer): void {
  const request = this[key]
  try {
    request?.take(chunk)
  } catch (error) {
    request?.fail(error)
  }
}

function onClose(this: Outgoing): void {
  const request = this[key]
  if (this.writableFinished || request === undefined) return
  try {
    request.abandoned()
  } catch (error) {
    request.gateway.faulted(error, 'a client that went away')
  }
}
