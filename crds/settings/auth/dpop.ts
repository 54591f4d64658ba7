import { durationWithin } from '../rules.ts'
import { choice, defaulted, duration, list, object, type Reader, Type } from '../schema.ts'
import { longestProofAge, shortestProofAge } from './bounds.ts'

const ALGORITHMS = ['ES256', 'EdDSA', 'RS256', 'PS256', 'ES384', 'ES512', 'RS384', 'RS512', 'PS384', 'PS512'] as const

const mode = (readBy: Reader, description: string) =>
  defaulted(choice(readBy, description, ['disabled', 'optional', 'required'], { default: 'optional' }))

const nonce = (readBy: Reader) =>
  defaulted(
    choice(
      readBy,
      'Whether a proof must hold a nonce that the server has issued within the last two minutes.',
      ['disabled', 'required'],
      { default: 'disabled' },
    ),
  )

/** The proofs (DPoP, RFC 9449) that callers send with their tokens. */
export const dpop = (readBy: Reader) =>
  object('Proofs of possession of the key that a token is bound to (DPoP, RFC 9449). Absent: none is checked.', {
    mode: mode(readBy, 'Whether tokens without a proof are accepted too, or refused.'),
    algs: Type.Optional(
      list(
        'Signature algorithms of proofs; `ES256`, `EdDSA`, `RS256` and `PS256` when left out.',
        choice(readBy, 'An algorithm.', ALGORITHMS),
        { type: 'set', min: 1, max: 10 },
      ),
    ),
    maxAge: defaulted(
      duration(
        readBy,
        `Largest difference between the time of a proof and now, from ${shortestProofAge} to ${longestProofAge}.`,
        {
          default: longestProofAge,
          rules: [durationWithin(shortestProofAge, longestProofAge)],
        },
      ),
    ),
    nonce: nonce(readBy),
    replay: Type.Optional(
      choice(
        readBy,
        'Where used proofs are remembered: nowhere, in the replica that got them, or in all replicas through Redis. Absent: `shared` with Redis, otherwise `replica`.',
        ['none', 'replica', 'shared'],
      ),
    ),
  })

/** The proofs that clients send to the authorization server. */
export const tokenDpop = (readBy: Reader) =>
  object('Access tokens that are bound to a key of the client (DPoP, RFC 9449). Absent: none.', {
    mode: mode(readBy, 'Whether clients without a proof get a token too, or none.'),
    nonce: nonce(readBy),
  })
