import { createHash, timingSafeEqual } from 'node:crypto'
import { Hono } from 'hono'
import type { Logger } from 'pino'
import { readBody } from '../../dataplane/server/body.ts'
import { errorResponse, PublicError } from '../../dataplane/server/errors.ts'
import { drainTimes, type Listener, listen } from '../../dataplane/server/listen/listen.ts'
import { ADMISSION_NAME, formatWebhookName } from '../../operator/render/network/network.ts'
import { type AdmissionStatus, CertificateKeeper } from '../../operator/runtime/admission/certificate-keeper.ts'
import type { Reviewer } from '../../operator/runtime/admission/reviewer.ts'

/** The API server's limit for one object. A review of an update has two; a larger one gets no warnings. */
const BODY_BYTES = 3 * 1024 * 1024
/** The most concurrent reviews: each holds a body, and may wait for the API server. */
const MOST_REVIEWS = 16

/** Makes the webhook's app: `POST` of an AdmissionReview at the path that holds the token, and nothing else. */
export function admissionApp(reviewer: Pick<Reviewer, 'review'>, path: () => string, log: Logger): Hono {
  const app = new Hono()
  let reviews = 0
  app.all('*', async (c) => {
    // A client of this port could query which Secrets and objects exist; therefore only the API server knows the path.
    if (!isSame(c.req.path, path())) throw new PublicError('not_found')
    if (c.req.method !== 'POST') throw new PublicError('method_not_allowed', { headers: { allow: 'POST' } })
    if (reviews >= MOST_REVIEWS) throw new PublicError('rate_limited', { headers: { 'retry-after': '1' } })
    reviews++
    try {
      const answer = await reviewer.review(parseBody(await readBody(c, BODY_BYTES)))
      if (answer === undefined)
        throw new PublicError('invalid_request', {
          message: 'The body is not an AdmissionReview of admission.k8s.io/v1.',
        })
      return c.json(answer)
    } finally {
      reviews--
    }
  })
  app.onError((error) => errorResponse(error, log))
  return app
}

function isSame(given: string, expected: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}

function parseBody(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    throw new PublicError('parse_error')
  }
}

const DRAIN = drainTimes(5, 18)

interface AdmissionOptions
  extends Omit<ConstructorParameters<typeof CertificateKeeper>[0], 'name' | 'webhook' | 'onServe'> {
  readonly reviewer: Pick<Reviewer, 'review'>
  readonly group: string
  readonly address: string
}

export interface ServedAdmission {
  status(): AdmissionStatus
  /** Closes it once the reviews in flight have ended; after SIGTERM the API server learns of that first. */
  close(reason?: unknown): Promise<void>
}

/** Serves the admission webhook from the time when there is a certificate until it is closed. */
export function serveAdmission({ reviewer, group, address, ...options }: AdmissionOptions): ServedAdmission {
  const { log } = options
  let listener: Listener | undefined
  let path = ''
  const app = admissionApp(reviewer, () => path, log)
  const keeper = new CertificateKeeper({
    ...options,
    name: ADMISSION_NAME,
    webhook: formatWebhookName(group),
    async onServe({ path: asked, ...tls }) {
      if (listener) listener.setCertificate(tls)
      else {
        const limits = {
          headersTimeoutMs: 5_000,
          requestTimeoutMs: 10_000,
          maxHeaderBytes: 16_384,
          maxConnections: 256,
        }
        listener = await listen(app.fetch, address, { ...limits, tls })
        log.info({ admission: listener.url }, 'reviews objects')
      }
      path = asked
    },
  })
  keeper.start()
  return {
    status: () => keeper.status,
    async close(reason) {
      await keeper.stop()
      await listener?.close(reason === 'SIGTERM' ? DRAIN : undefined)
    },
  }
}
