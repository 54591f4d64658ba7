/** The steps of a POST to the MCP endpoint. Each step uses the results of the previous one. */

import { Message, parseMessage } from '../mcp/message.ts'
import { eraOf } from '../mcp/revisions.ts'
import { serveBatch } from './batch.ts'
import { admit, checkPost } from './incoming/admit.ts'
import { bodyReader, type EndpointExchange } from './incoming/endpoint-exchange.ts'
import { serveLegacy } from './legacy.ts'
import { serveModern } from './modern.ts'

/** Serves a POST. An error that a step throws or rejects with becomes the answer. */
export function post(exchange: EndpointExchange): void {
  exchange.run(start)
}

/** 1. Checks the host and authenticates the caller. Any unauthenticated request is told the authorization server. */
function start(arrived: EndpointExchange): void {
  admit(arrived, takeBody)
}

/** 2. Reads the body: JSON within the size limit. */
function takeBody(admitted: EndpointExchange): void {
  admitted.expect(checkPost(admitted.req))
  readBody(admitted)
}

const readBody = bodyReader(understand)

/** 3. Parses the body: one message, or a batch of them. */
function understand(admitted: EndpointExchange): void {
  if (admitted.reply.begun) return
  const message = parseMessage(admitted.takeBody(), admitted)
  if (message instanceof Message) serve(admitted, message)
  else admitted.run(() => serveBatch(admitted, message))
}

/** 4. Determines the era, which has a table of methods. */
function serve(admitted: EndpointExchange, message: Message): void {
  const understood = admitted.understand(message)
  const request = understood.inEra(eraOf(message, admitted.req.headers))
  if (request.era === 'modern') serveModern(request)
  else request.run(serveLegacy)
}
