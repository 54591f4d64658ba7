import type { ServerResponse } from 'node:http'
import { answer, OK_RESULT, type RawRequest, type RawServer, startRawServer } from '../servers/raw-server.ts'

/** A backend whose calls and GET streams a test writes on as it likes. */
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

  /** A log message before the answer to the newest call. */
  log(text: string): void {
    this.calls.at(-1)?.res.write(`data: ${logged(text)}\n\n`)
  }

  answer(result = OK_RESULT): void {
    const { request, res } = this.calls.at(-1) as (typeof this.calls)[number]
    res.end(`data: ${answer(request, result)}\n\n`)
  }
}

/** A log message as a backend sends it. */
export const logged = (text: string) =>
  JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: text } })
