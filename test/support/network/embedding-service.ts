import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { endFileOnError } from '../or-fail.ts'

export interface EmbeddingRequest {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Readonly<Record<string, unknown>>
  readonly texts: readonly string[]
}

/** The meanings of texts: each list is one meaning, expressed by any of its words. */
export type Meanings = readonly (readonly string[])[]

export interface EmbeddingService {
  readonly url: string
  readonly port: number
  readonly seen: EmbeddingRequest[]
  /** Answers in place of the service; returns true if it has. */
  answer: ((request: EmbeddingRequest, res: ServerResponse) => boolean) | undefined
  /** The texts of all requests. */
  readonly texts: readonly string[]
  /** Makes the vectors of its next answers longer by this many numbers. */
  more: number
  close(): Promise<void>
}

/**
 * Starts an embedding service with a tiny model. It speaks the protocols of text-embeddings-inference (`/embed`) and of
 * OpenAI (`/v1/embeddings`, with its answers out of order).
 */
export async function startEmbeddingService(meanings: Meanings, host = '127.0.0.1'): Promise<EmbeddingService> {
  const seen: EmbeddingRequest[] = []
  const server = createServer(
    endFileOnError(async (req: IncomingMessage, res: ServerResponse) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const body = JSON.parse(Buffer.concat(chunks).toString())
      const path = req.url ?? ''
      const isTei = path.startsWith('/embed')
      const request = { path, headers: req.headers, body, texts: isTei ? body.inputs : body.input }
      seen.push(request)
      if (service.answer?.(request, res)) return
      const vectors = request.texts.map((text: string) => buildVector(text, meanings, service.more))
      const data = vectors.map((embedding: unknown, index: number) => ({ object: 'embedding', index, embedding }))
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(JSON.stringify(isTei ? vectors : { object: 'list', data: data.reverse(), model: body.model }))
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const { port } = server.address() as AddressInfo
  const service: EmbeddingService = {
    url: `http://${host}:${port}`,
    port,
    seen,
    answer: undefined,
    more: 0,
    get texts() {
      return seen.flatMap(({ texts }) => texts)
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return service
}

/** Returns one number for each meaning, one that every text has a little of, and `more` others. */
function buildVector(text: string, meanings: Meanings, more: number): readonly number[] {
  const lower = text.toLowerCase()
  const counts = meanings.map((words) => words.filter((word) => lower.includes(word)).length)
  return [...counts, 0.01, ...new Array<number>(more).fill(0)]
}
