import { pipeline, Readable, type Transform } from 'node:stream'
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib'

type Header = string | readonly string[] | undefined

/** A body that claims an encoding and can't be decoded. The message is for the log. */
export class UndecodableBody extends Error {
  override readonly name = 'UndecodableBody'
  readonly code = 'ERR_UNDECODABLE'
}

/** The most encodings of a body: no server has a reason for more. */
const MOST_ENCODINGS = 2
/** The low bits of the first byte of a zlib stream (RFC 1950); some servers send `deflate` without that envelope. */
const ZLIB = 8
/** The largest window of zstd, which its decoder holds: 8 MiB (RFC 9659). A frame may ask for far more. */
const ZSTD = { params: { [constants.ZSTD_d_windowLogMax]: 23 } }

const decoders: Readonly<Record<string, (first: number) => Transform>> = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  deflate: (first) => ((first & 0x0f) === ZLIB ? createInflate() : createInflateRaw()),
  br: () => createBrotliDecompress(),
  zstd: () => createZstdDecompress(ZSTD),
}

/**
 * Returns the encodings of a body by its Content-Encoding (RFC 9110, 8.4), the last one first. An unknown one is
 * ignored, as browsers do: some servers write `utf-8` or `none` there. Throws an UndecodableBody.
 */
function readEncodings(header: Header): readonly string[] {
  const names = [header ?? []].flat().join(',').toLowerCase().split(',')
  const encodings = names.map((name) => name.trim()).filter((name) => name !== '' && name !== 'identity')
  if (encodings.length > MOST_ENCODINGS) throw new UndecodableBody('the answer is encoded more than twice')
  return encodings.every((name) => Object.hasOwn(decoders, name)) ? encodings.reverse() : []
}

const MIB = 1024 * 1024
/** The window that a decoder holds, at most. That of gzip and deflate is 32 KiB. */
const WINDOWS: Readonly<Record<string, number>> = { br: 16 * MIB, zstd: 8 * MIB }

/** Tells whether a body with this Content-Encoding is decoded. */
export function isKnownEncoding(header: Header): boolean {
  try {
    return readEncodings(header).length > 0
  } catch {
    return true
  }
}

const streamsFor = (encodings: readonly string[], first: number): Transform[] =>
  encodings.flatMap((name, index) => decoders[name]?.(index === 0 ? first : ZLIB) ?? [])

const undecodable = (cause: NodeJS.ErrnoException) =>
  new UndecodableBody(`the answer is not what its Content-Encoding says, or breaks off (${cause.code})`, { cause })

/** The memory that a peer may make this process hold. */
interface MemoryShare {
  /** Takes that many bytes. Returns false if it has no room for them. */
  tryTake(bytes: number): boolean
  release(bytes: number): void
}

interface DecodedBody {
  /** The share in which the decoder counts. */
  readonly share: MemoryShare
  data(chunk: Buffer): void
  /** Called when more can be written, after `write` has returned false. */
  drained(): void
  end(): void
  failed(error: Error): void
}

/** Decodes a body while it arrives. Some servers compress although the request did not ask for it. */
export interface BodyDecoder {
  /** Decodes a chunk. Returns false if the next one must wait until `drained`: some bodies grow to nothing. */
  write(chunk: Buffer): boolean
  end(): void
  pause(): void
  resume(): void
  stop(): void
}

/** Makes a decoder; undefined if the header names no known encoding. Throws an UndecodableBody if it names too many. */
export function decoderFor(contentEncoding: Header, body: DecodedBody): BodyDecoder | undefined {
  const encodings = readEncodings(contentEncoding)
  if (encodings.length === 0) return undefined
  let streams: readonly Transform[] = []
  let isOver = false
  let isPaused = false
  let held = 0
  const window = encodings.reduce((sum, name) => sum + (WINDOWS[name] ?? 0), 0)
  const over = () => {
    isOver = true
    body.share.release(held)
    held = 0
  }
  const onFailure = (error: Error) => {
    if (isOver) return
    over()
    body.failed(error)
  }
  const onData = (chunk: Buffer) => {
    // The window fills as the body grows.
    const more = Math.min(chunk.length, window - held)
    if (more > 0 && !body.share.tryTake(more)) {
      onFailure(new UndecodableBody('there is no memory to decode the answer'))
      return
    }
    held += more
    body.data(chunk)
  }
  function begin(first: number): void {
    streams = streamsFor(encodings, first)
    streams[0]?.on('drain', () => isOver || body.drained())
    for (const [index, stream] of streams.entries()) {
      stream.on('error', (error) => onFailure(undecodable(error)))
      const next = streams[index + 1]
      if (next !== undefined) stream.pipe(next)
    }
    const last = streams.at(-1)
    last?.on('data', (chunk: Buffer) => isOver || onData(chunk))
    last?.on('end', () => {
      if (isOver) return
      over()
      body.end()
    })
    if (isPaused) last?.pause()
  }
  return {
    write(chunk) {
      if (chunk.length === 0 || isOver) return true
      if (streams.length === 0) begin(chunk[0] as number)
      return streams[0]?.write(chunk) !== false
    },
    end() {
      if (streams.length > 0) streams[0]?.end()
      else if (!isOver) body.end()
    },
    pause() {
      isPaused = true
      streams.at(-1)?.pause()
    },
    resume() {
      isPaused = false
      streams.at(-1)?.resume()
    },
    stop() {
      over()
      for (const stream of streams) stream.destroy()
    },
  }
}

/** The error codes of zlib, brotli and zstd in Node. */
const DECODER_CODE = /^(?:Z_|ERR__|ERR_ZLIB|ZSTD_)/

/**
 * Yields the decoded bytes of a body. Some servers compress although the request did not ask for it. Throws an
 * UndecodableBody.
 */
export async function* decodedBody(body: Readable, contentEncoding: Header): AsyncGenerator<Buffer> {
  const encodings = readEncodings(contentEncoding)
  if (encodings.length === 0) {
    yield* body as AsyncIterable<Buffer>
    return
  }
  const pieces = (body as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  const first = await pieces.next()
  // An answer without a body may still have a Content-Encoding.
  if (first.done === true) return
  let stream: Readable = Readable.from(begunWith(first.value, pieces))
  for (const decoder of streamsFor(encodings, first.value[0] as number)) stream = pipeline(stream, decoder, ignoreError)
  try {
    yield* stream as AsyncIterable<Buffer>
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw code !== undefined && DECODER_CODE.test(code) ? undecodable(error as Error) : error
  } finally {
    body.destroy()
  }
}

function ignoreError(): void {
  // The reader of the stream gets the error.
}

async function* begunWith(first: Buffer, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  yield first
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value
}
