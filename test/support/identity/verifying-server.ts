import { createRemoteJWKSet, type JWTPayload, jwtVerify } from 'jose'
import { answer, type RawServer, startRawServer } from '../servers/raw-server.ts'

interface VerifyingServerOptions {
  readonly era: 'modern' | 'legacy'
  readonly issuer: string
  readonly jwksUrl: string
  /** What tokens have to be meant for. */
  readonly audience: string
  /** Address that it listens at; default 127.0.0.1. */
  readonly host?: string
}

/** A backend that takes tokens of an issuer, meant for it, and nothing else. */
export interface VerifyingServer extends RawServer {
  /** Claims of the tokens that were let in. */
  readonly admitted: JWTPayload[]
}

/** Its tool `t` says whose token it was called with. */
export async function startVerifyingServer(options: VerifyingServerOptions): Promise<VerifyingServer> {
  const { era, issuer, jwksUrl, audience, host } = options
  const keys = createRemoteJWKSet(new URL(jwksUrl))
  const admitted: JWTPayload[] = []
  const server = await startRawServer({
    era,
    ...(host === undefined ? {} : { host }),
    call(request) {
      const text = admitted.at(-1)?.sub
      return answer(request, JSON.stringify({ resultType: 'complete', content: [{ type: 'text', text }] }))
    },
    async before({ headers }, res) {
      const [, token = ''] = /^Bearer (.+)$/.exec(headers.authorization ?? '') ?? []
      try {
        const { payload } = await jwtVerify(token, keys, { issuer, audience })
        admitted.push(payload)
        return false
      } catch {
        res.writeHead(401).end()
        return true
      }
    },
  })
  return Object.assign(server, { admitted })
}
