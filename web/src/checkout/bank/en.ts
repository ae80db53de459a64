export const en = {
  title: 'Your bank asks you to confirm',
  text: (price: string, seller: string) => `Do you want to pay ${price} to ${seller}?`,
  setup: (seller: string) => `May ${seller} charge this card later?`,
  sandbox: 'This page simulates the bank of a test card. With a real card, your own bank asks you to confirm.',
  confirm: 'Yes, I confirm',
  refuse: 'No, refuse',
}
