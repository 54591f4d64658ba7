import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { outputWatch } from '../../secrets/watch.ts'
import { eventually } from '../eventually.ts'
import { type Decoded, decodeMetrics, decodeTraces, plain } from './otlp-messages.ts'

export interface ReceivedSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly traceState: string | undefined
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number
  readonly failed: boolean
  readonly ms: number
  /** Ids of the spans to which it links. */
  readonly links: readonly string[]
  readonly attributes: Record<string, unknown>
  readonly resource: Record<string, unknown>
}

export interface Point {
  readonly attributes: Record<string, unknown>
  readonly count: number
  readonly sum: number
}

/** An endpoint for OTLP over HTTP that stores what it receives. */
export interface OtlpReceiver {
  readonly url: string
  readonly spans: ReceivedSpan[]
  /** Headers and path of each export. */
  readonly exports: { readonly path: string; readonly headers: IncomingHttpHeaders }[]
  /** The points of the last export of metrics, by name. */
  readonly metrics: Map<string, Point[]>
  /** The resource of the last export of metrics. */
  metricsResource: Record<string, unknown>
  /** The answer from now on. */
  status: number
  /** Waits until this many spans have arrived. */
  received(count: number): Promise<ReceivedSpan[]>
  /** Waits until the points of a metric have this total count, and returns them. */
  counted(metric: string, count: number): Promise<Point[]>
  close(): Promise<void>
}

export async function startOtlpReceiver(tls?: { readonly key: string; readonly cert: string }): Promise<OtlpReceiver> {
  const watch = outputWatch('otlp')
  const answer = (req: IncomingMessage, res: ServerResponse) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const body = Buffer.concat(chunks)
      watch(body)
      if (receiver.status === 200) take(receiver, req, body)
      res.writeHead(receiver.status, { 'content-type': 'application/x-protobuf' }).end()
    })
  }
  const server = tls === undefined ? createServer(answer) : createSecureServer(tls, answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const receiver: OtlpReceiver = {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    spans: [],
    exports: [],
    metrics: new Map(),
    metricsResource: {},
    status: 200,
    async received(count) {
      await eventually(`${count} spans`, () => this.spans.length >= count)
      return this.spans
    },
    async counted(metric, count) {
      const points = () => this.metrics.get(metric) ?? []
      await eventually(`${count} of ${metric}`, () => points().reduce((sum, point) => sum + point.count, 0) >= count)
      return points()
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return receiver
}

function take(receiver: OtlpReceiver, req: IncomingMessage, body: Buffer): void {
  const path = req.url ?? ''
  receiver.exports.push({ path, headers: req.headers })
  if (path.endsWith('/v1/traces')) receiver.spans.push(...parseSpans(decodeTraces(body)))
  if (!path.endsWith('/v1/metrics')) return
  receiver.metrics.clear()
  for (const { resource, scopes } of decodeMetrics(body).resources) {
    receiver.metricsResource = plain(resource.attributes)
    for (const { metrics } of scopes)
      for (const { name, sum, histogram, gauge } of metrics)
        receiver.metrics.set(
          name,
          (histogram ?? sum ?? gauge)?.points.map((point: Decoded) => ({
            attributes: plain(point.attributes),
            count: point.count ?? point.integer ?? point.double ?? 0,
            sum: point.sum ?? 0,
          })) ?? [],
        )
  }
}

const parseSpans = ({ resources }: Decoded): ReceivedSpan[] =>
  resources.flatMap(({ resource, scopes }: Decoded) =>
    scopes.flatMap(({ spans }: Decoded) =>
      spans.map(
        (span: Decoded): ReceivedSpan => ({
          name: span.name,
          traceId: span.traceId,
          spanId: span.spanId,
          parentSpanId: span.parentSpanId ?? '',
          traceState: span.traceState,
          kind: span.kind,
          failed: span.status?.code === 2,
          ms: (span.end - span.start) / 1e6,
          links: (span.links ?? []).map((link: Decoded) => link.spanId),
          attributes: plain(span.attributes),
          resource: plain(resource.attributes),
        }),
      ),
    ),
  )
