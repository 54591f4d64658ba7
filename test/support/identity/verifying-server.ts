import { createRemoteJWKSet, type JWTPayload, jwtVerify } from 'jose'
import { answer, type RawServer, startRawServer } from '../servers/raw-server.ts'

interface VerifyingServerOptions {
  readonly era: 'modern' | 'legacy'
  readonly issuer: string
  readonly jwksUrl: string
  /** Required audience of tokens. */
  readonly audience: string
  /** Address to listen at; default 127.0.0.1. */
  readonly host?: string
}

/** A backend that only accepts an issuer's tokens that are meant for it. */
export interface VerifyingServer extends RawServer {
  /** Claims of the accepted tokens. */
  readonly admitted: JWTPayload[]
}

/** Starts the backend. Its tool `t` returns the subject of the token. */
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
