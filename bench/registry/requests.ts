import { Agent, request } from 'node:http'

export interface Answer {
  readonly status: number
  readonly body: string
}

/** A client of its own connection, which it keeps. */
export interface Client {
  get(path: string): Promise<string>
  post(path: string, body: string): Promise<Answer>
  close(): void
}

/** `authorization`: what each request carries; undefined: none. */
export function createClient(url: string, authorization: string | undefined): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const identity = authorization === undefined ? {} : { authorization }

  function ask(method: string, path: string, headers: Record<string, string>, body?: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const sent = request(url + path, { agent, method, headers: { ...identity, ...headers } }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() }))
        response.on('error', reject)
      })
      sent.on('error', reject)
      sent.end(body)
    })
  }

  return {
    async get(path) {
      const { status, body } = await ask('GET', path, {})
      if (status !== 200) throw new Error(`GET ${path}: ${status} ${body}`)
      return body
    },
    post: (path, body) => ask('POST', path, { 'content-type': 'application/json' }, body),
    close: () => agent.destroy(),
  }
}
