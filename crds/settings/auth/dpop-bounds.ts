/** Constants that the schemas of proofs (DPoP) share with their checks. This file loads no schema. */

export const shortestProofAge = '10s'
export const longestProofAge = '300s'

/** The signature algorithms of proofs where the configuration names none. */
export const usualProofAlgorithms = ['ES256', 'EdDSA', 'RS256', 'PS256'] as const
