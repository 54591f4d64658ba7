/** Where a user logs in at a provider, so that there are tokens of it. */
export interface LinkOffer {
  /** Names the link, and says nothing of it. */
  readonly id: string
  readonly url: string
  /** Name of the provider. */
  readonly provider: string
}

/** Makes such a link. Rejects with a PublicError where that can't be done at the moment. */
export type MakeLink = () => Promise<LinkOffer>
