import pino from 'pino'
import * as assert from 'uvu/assert'
import { serveConsole } from '../../console/serve.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/network/free-port.ts'

/** A console as it runs in a pod, where viewers log in with a token. */
export interface PodConsole {
  readonly url: string
  /** Logs in with a token and returns the cookies. */
  logIn(token: string): Promise<string>
  get(path: string, cookie: string, headers?: Readonly<Record<string, string>>): Promise<Response>
  // biome-ignore lint/suspicious/noExplicitAny: each page has facts of its own
  json(path: string, cookie: string): Promise<any>
  close(): Promise<void>
}

/** Starts a console for an API server. `rest`: further lines of its configuration. */
export async function startPodConsole(apiServer: string, rest = ''): Promise<PodConsole> {
  const folder = temporaryFolder()
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const configFile = folder.write(
    'console.yaml',
    `publicUrl: ${url}\nlogin: {token: {}}\nkubernetes: {server: "${apiServer}"}\n${rest}`,
  )
  const log = () => pino({ level: 'silent' })
  const served = await serveConsole({
    configFile,
    listen: `127.0.0.1:${port}`,
    log,
    environment: {},
  })
  const get: PodConsole['get'] = (path, cookie, headers = {}) =>
    fetch(url + path, { headers: { cookie, ...headers }, redirect: 'manual' })
  return {
    url,
    get,
    async logIn(token) {
      const answer = await fetch(`${url}/login`, {
        method: 'POST',
        headers: { origin: url },
        body: new URLSearchParams({ token, to: '/' }),
        redirect: 'manual',
      })
      assert.is(answer.status, 200, await answer.text())
      const cookies = answer.headers.getSetCookie().filter((one) => !one.includes('Max-Age=0'))
      return cookies.map((one) => one.split(';')[0]).join('; ')
    },
    json: async (path, cookie) => (await get(path, cookie, { accept: 'application/json' })).json(),
    async close() {
      await served.close()
      folder[Symbol.dispose]()
    },
  }
}
