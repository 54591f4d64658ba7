import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { GRACE_MS } from '../provider/refresh-tokens.ts'
import type { Front } from './front.ts'
import { OAuthError } from './oauth-error.ts'

/** An exchange that takes longer has failed; the next one may try. */
const EXCHANGE_S = 5
const LOOK_MS = 50
const LONGEST_WAIT_MS = 4_000

/**
 * Exchanges a refresh token once, however often it is sent at the same time or within ten seconds: a client whose answer
 * was lost, or whose processes share one token, gets the same answer. `exchange` gives the body of the answer, undefined
 * where the exchange was refused; it runs at one replica at a time.
 *
 * The answer is kept sealed by a key that only the token itself gives: what is stored is of no use without it.
 */
export async function exchangeOnce(
  front: Front,
  { token, clientId }: { readonly token: string; readonly clientId: string },
  exchange: () => Promise<string | undefined>,
): Promise<string | undefined> {
  const { store } = front
  const { keyed, refresh } = front.provider()
  const name = keyed.of('rotated', token)
  const sealing = { key: Buffer.from(keyed.of('sealed-answer', token), 'base64url'), bound: `${name} ${clientId}` }

  const grantId = refresh.grantOf(token)
  const grant = grantId === undefined ? undefined : await front.grants.find(grantId)
  // Nothing that could be exchanged: it is refused at once.
  if (grantId === undefined || grant?.['clientId'] !== clientId) return exchange()
  const answered = async () => {
    const text = await store.get('rotated', name)
    // What has ended since then is not given out again.
    return text === undefined || (await front.grants.find(grantId)) === undefined ? undefined : open(text, sealing)
  }
  for (let waited = 0; waited <= LONGEST_WAIT_MS; waited += LOOK_MS) {
    const known = await answered()
    if (known !== undefined) return known
    if (await store.add('rotating', name, '1', { ttlS: EXCHANGE_S, by: { grant: grantId } })) {
      const answer = await exchange()
      if (answer === undefined) await store.delete('rotating', name)
      else {
        const term = { ttlS: GRACE_MS / 1000, by: { grant: grantId } }
        await store.set('rotated', name, seal(answer, sealing), term)
      }
      return answer
    }
    await wait(LOOK_MS)
  }
  throw new OAuthError('temporarily_unavailable', 'The token is being exchanged; try again.', 503, {
    'Retry-After': '1',
  })
}

interface Sealing {
  readonly key: Buffer
  /** Goes into the seal: what was sealed for one token and client opens for no other. */
  readonly bound: string
}

const NONCE_BYTES = 12
const TAG_BYTES = 16

function seal(text: string, { key, bound }: Sealing): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(bound))
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')
}

/** Undefined where it was sealed for another client. */
function open(text: string, { key, bound }: Sealing): string | undefined {
  const bytes = Buffer.from(text, 'base64url')
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES))
    .setAAD(Buffer.from(bound))
    .setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
  try {
    return decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
  } catch {
    return undefined
  }
}
