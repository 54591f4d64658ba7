import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'

/** Takes a body as it was before it was compressed. */
interface DecodedBody {
  /** Some decoded bytes. */
  data(chunk: Buffer): void
  end(): void
  failed(error: Error): void
}

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** The answer came in an encoding that nobody asked for and that is none of HTTP's usual ones. */
export class UnknownEncoding extends Error {}

/** A body that came compressed although nobody asked for that, decoded as it comes. */
export interface BodyDecoder {
  write(chunk: Buffer): void
  /** The body is whole; `end` of the decoded one follows. */
  end(): void
  /** Gives nothing more until `resume`. */
  pause(): void
  resume(): void
  /** Gives nothing more. */
  stop(): void
}

/**
 * Makes a decoder for an answer with this Content-Encoding (RFC 9110, 8.4.1); undefined where it says that there is none.
 * Throws an UnknownEncoding for any other.
 */
export function decoderFor(
  contentEncoding: string | readonly string[] | undefined,
  body: DecodedBody,
): BodyDecoder | undefined {
  const encoding = nameOf(contentEncoding)
  const stream = streamFor(encoding)
  if (stream === undefined) return undefined
  let isOver = false
  stream.on('data', (chunk: Buffer) => isOver || body.data(chunk))
  stream.on('end', () => isOver || body.end())
  stream.on(
    'error',
    (error) => isOver || body.failed(new Error(`the answer can’t be decoded (${encoding}): ${error.message}`)),
  )
  return {
    write: (chunk) => void stream.write(chunk),
    end: () => void stream.end(),
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    stop() {
      isOver = true
      stream.destroy()
    },
  }
}

/** The chunks of a body as they were before it was compressed. Throws an UnknownEncoding. */
export function decodedBody(
  body: AsyncIterable<Buffer> & NodeJS.ReadableStream,
  contentEncoding: string | readonly string[] | undefined,
): AsyncIterable<Buffer> {
  const stream = streamFor(nameOf(contentEncoding))
  if (stream === undefined) return body
  body.on('error', (error) => stream.destroy(error as Error))
  stream.on('close', () => (body as { destroy?(): void } & typeof body).destroy?.())
  return body.pipe(stream)
}

const nameOf = (contentEncoding: string | readonly string[] | undefined): string =>
  String(contentEncoding ?? '')
    .trim()
    .toLowerCase()

/** Undefined where nothing is to be decoded. Throws an UnknownEncoding. */
function streamFor(encoding: string): Transform | undefined {
  if (encoding === '' || encoding === 'identity') return undefined
  const make = Object.hasOwn(decoders, encoding) ? decoders[encoding] : undefined
  if (make === undefined)
    throw new UnknownEncoding(`the Content-Encoding ${JSON.stringify(encoding.slice(0, 64))} is unknown`)
  return make()
}
