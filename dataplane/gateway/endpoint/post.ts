/** The way of a POST to the MCP endpoint, step by step. */
import { eraOf } from '../mcp/classify.ts'
import { Message, parseMessage } from '../mcp/message.ts'
import { serveBatch } from './batch.ts'
import { checkPost } from './incoming/accept.ts'
import { admit } from './incoming/admit.ts'
import type { EndpointRequest } from './incoming/endpoint-request.ts'
import { bodyReader } from './incoming/read-body.ts'
import { serveLegacy } from './legacy.ts'
import { serveModern } from './modern.ts'

/** Takes a POST. What a step throws or rejects with becomes the answer. */
export function post(request: EndpointRequest): void {
  request.run(start)
}

/** 1. Its host, and who calls: a client learns of the authorization server however it asks. */
function start(request: EndpointRequest): void {
  admit(request, takeBody)
}

/** 2. Its body: JSON, not too large. */
function takeBody(request: EndpointRequest): void {
  request.expect(checkPost(request.req))
  readBody(request)
}

const readBody = bodyReader(understand)

/** 3. What the body says: one message, or a batch of them. */
function understand(request: EndpointRequest): void {
  if (request.reply.begun) return
  const message = parseMessage(request.takeBody(), request)
  if (message instanceof Message) serve(request, message)
  else request.run(() => serveBatch(request, message))
}

/** 4. The era that it is of, which has a table of methods. */
function serve(request: EndpointRequest, message: Message): void {
  request.adopt(message)
  request.era = eraOf(message, request.req.headers)
  if (request.era === 'modern') serveModern(request)
  else request.run(serveLegacy)
}
