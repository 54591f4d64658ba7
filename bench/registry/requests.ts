import { Client as Connection } from 'undici'

export interface Answer {
  readonly status: number
  readonly body: Buffer
}

export interface Client {
  get(path: string): Promise<Buffer>
  post(path: string, body: string): Promise<Answer>
  close(): void
}

/** Creates a client with its own connection. `authorization`: the header of each request. */
export function createClient(url: string, authorization: string | undefined): Client {
  const connection = new Connection(url)
  const identity = authorization === undefined ? {} : { authorization }

  function ask(method: 'GET' | 'POST', path: string, headers: Record<string, string>, body?: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = []
      let status = 0
      connection.dispatch(
        { method, path, headers: { ...identity, ...headers }, ...(body === undefined ? {} : { body }) },
        {
          onRequestStart() {},
          onResponseStart(_controller, statusCode) {
            status = statusCode
          },
          onResponseData: (_controller, chunk) => void chunks.push(chunk),
          onResponseEnd: () => resolve({ status, body: Buffer.concat(chunks) }),
          onResponseError: (_controller, error) => reject(error),
        },
      )
    })
  }

  return {
    async get(path) {
      const { status, body } = await ask('GET', path, {})
      if (status !== 200) throw new Error(`GET ${path}: ${status} ${body}`)
      return body
    },
    post: (path, body) => ask('POST', path, { 'content-type': 'application/json' }, body),
    close() {
      connection.destroy().catch(() => {})
    },
  }
}
