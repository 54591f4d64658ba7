import { hash, randomUUID } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, type GenerateKeyPairResult, generateKeyPair, type JWK, SignJWT } from 'jose'

/** Changes to a correct proof; undefined removes a member. */
export interface OddProof {
  readonly header?: Readonly<Record<string, unknown>>
  readonly claims?: Readonly<Record<string, unknown>>
}

/** A client's key, made with jose, and the proofs of possession that it signs (RFC 9449). */
export class Prover {
  readonly jkt: string
  readonly alg: string
  readonly publicJwk: JWK
  readonly privateKey: GenerateKeyPairResult['privateKey']

  private constructor(alg: string, privateKey: GenerateKeyPairResult['privateKey'], publicJwk: JWK, jkt: string) {
    this.alg = alg
    this.privateKey = privateKey
    this.publicJwk = publicJwk
    this.jkt = jkt
  }

  static async create(alg = 'ES256'): Promise<Prover> {
    const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
    const publicJwk = await exportJWK(publicKey)
    return new Prover(alg, privateKey, publicJwk, await calculateJwkThumbprint(publicJwk))
  }

  /** Returns a proof for one request; `token` is the access token that is sent with it. */
  async prove(method: string, url: string, token?: string, { header, claims }: OddProof = {}): Promise<string> {
    const ath = token === undefined ? undefined : hash('sha256', token, 'base64url')
    const content = { jti: randomUUID(), htm: method, htu: url, iat: Math.floor(Date.now() / 1000), ath, ...claims }
    const defined = Object.fromEntries(Object.entries(content).filter(([, value]) => value !== undefined))
    return new SignJWT(defined)
      .setProtectedHeader({ alg: this.alg, typ: 'dpop+jwt', jwk: this.publicJwk, ...header })
      .sign(this.privateKey)
  }

  /** Returns the headers of a request with a token that is bound to this key. */
  async headers(method: string, url: string, token: string, odd?: OddProof): Promise<Record<string, string>> {
    return { authorization: `DPoP ${token}`, dpop: await this.prove(method, url, token, odd) }
  }
}
