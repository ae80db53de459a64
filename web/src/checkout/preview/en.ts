export const en = {
  buy: (product: string, seller: string) => `${product} from ${seller}`,
  buyText: (seller: string) => `Secure checkout of ${seller}.`,
  claim: (seller: string) => `Your seat at ${seller}`,
  claimText: 'You were invited to a seat. Open the link to accept it.',
  continue: 'Continue',
}
