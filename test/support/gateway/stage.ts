import type { ServerResponse } from 'node:http'
import { eventually } from '../eventually.ts'
import { answer, OK_RESULT, type RawRequest, type RawServer, startRawServer } from '../servers/raw-server.ts'
import { EventReader } from './event-reader.ts'
import { BASE_HEADERS, rpc } from './post.ts'

/** A backend whose calls and GET streams a test writes to. */
export class Stage {
  readonly calls: { readonly request: RawRequest; readonly res: ServerResponse }[] = []
  readonly gets: ServerResponse[] = []
  backend!: RawServer

  static async start(): Promise<Stage> {
    const stage = new Stage()
    stage.backend = await startRawServer({
      era: 'legacy',
      call: (request, res) => {
        res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
        stage.calls.push({ request, res })
        return undefined
      },
      before: ({ method }, res) => {
        if (method !== 'GET') return false
        res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
        stage.gets.push(res)
        return true
      },
    })
    return stage
  }

  /** Sends a log message before the answer to the newest call. */
  log(text: string): void {
    this.calls.at(-1)?.res.write(`data: ${buildLogMessage(text)}\n\n`)
  }

  /** Calls the tool in a session, and waits until the answer has begun with the log message `first`. */
  async beginCall(
    url: string,
    session: Readonly<Record<string, string>>,
    id: unknown = 'c1',
    name = 't',
  ): Promise<EventReader> {
    const before = this.calls.length
    const opening = EventReader.open(url, {
      method: 'POST',
      headers: { ...BASE_HEADERS, ...session },
      body: rpc('tools/call', { name, arguments: {} }, id),
    })
    await eventually('the call reaches the backend', () => this.calls.length > before)
    this.log('first')
    const reader = await opening
    await eventually('the first message has arrived', () => reader.messages.length > 0)
    return reader
  }

  answer(result = OK_RESULT): void {
    const { request, res } = this.calls.at(-1) as (typeof this.calls)[number]
    res.end(`data: ${answer(request, result)}\n\n`)
  }
}

/** A backend's log message. */
export const buildLogMessage = (text: string) =>
  JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: text } })
