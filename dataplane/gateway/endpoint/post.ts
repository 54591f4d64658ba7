/** The way of a POST to the MCP endpoint, step by step: each takes what the one before has found out. */
import { eraOf } from '../mcp/classify.ts'
import { Message, parseMessage } from '../mcp/message.ts'
import { serveBatch } from './batch.ts'
import { admit, checkPost } from './incoming/admit.ts'
import { bodyReader, type EndpointExchange } from './incoming/endpoint-exchange.ts'
import { serveLegacy } from './legacy.ts'
import { serveModern } from './modern.ts'

/** Takes a POST. What a step throws or rejects with becomes the answer. */
export function post(exchange: EndpointExchange): void {
  exchange.run(start)
}

/** 1. Its host, and who calls: a client learns of the authorization server however it asks. */
function start(arrived: EndpointExchange): void {
  admit(arrived, takeBody)
}

/** 2. Its body: JSON, not too large. */
function takeBody(admitted: EndpointExchange): void {
  admitted.expect(checkPost(admitted.req))
  readBody(admitted)
}

const readBody = bodyReader(understand)

/** 3. What the body says: one message, or a batch of them. */
function understand(admitted: EndpointExchange): void {
  if (admitted.reply.begun) return
  const message = parseMessage(admitted.takeBody(), admitted)
  if (message instanceof Message) serve(admitted, message)
  else admitted.run(() => serveBatch(admitted, message))
}

/** 4. The era that it is of, which has a table of methods. */
function serve(admitted: EndpointExchange, message: Message): void {
  const understood = admitted.understand(message)
  const request = understood.inEra(eraOf(message, admitted.req.headers))
  if (request.era === 'modern') serveModern(request)
  else request.run(serveLegacy)
}
