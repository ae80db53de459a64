export const en = {
  title: 'Your payment is not complete yet',
  text: (method: string, price: string, seller: string) => `Confirm the payment of ${price} to ${seller} with ${method}.`,
  setup: (method: string, seller: string) => `Confirm with ${method} that ${seller} may charge you later.`,
  go: (method: string) => `Continue with ${method}`,
  confirmed: 'If you have confirmed it already, this page shows the result as soon as we have it.',
  nothing: 'If you do not confirm within an hour, the payment is canceled and nothing is charged.',
}
