"""Sentences of our own: what people tell an assistant, a support desk or an operations channel.

Patterns with slots, expanded with a fixed seed. Written for the fit of the static table, released
with Flashbulb under Apache-2.0. The point is variety of words in natural surroundings, not beauty.
"""

from __future__ import annotations

import random
import re

SLOTS: dict[str, str] = {
    "gerund": "playing the guitar|riding a horse|slicing potatoes|running through a field|reading|"
    "climbing a rock|pouring water into a glass|singing a song|driving a car|taking a picture|"
    "kicking a ball|cooking dinner|drawing a picture|swimming|walking along the road|laughing|"
    "jumping over a fence|eating a banana|mixing flour and eggs|waiting for a train|fighting|"
    "peeling shrimp|playing the flute|combing her hair|dancing|smoking|sitting on a bench|typing",
    "country": "Egypt|Syria|China|India|Russia|Germany|Brazil|Kenya|Iran|Israel|Japan|Ukraine|"
    "Pakistan|Mexico|France|Nigeria|Turkey|Australia|Iraq|Spain|Greece|South Korea|Canada|Chile",
    "animal": "elephant|tiger|whale|eagle|wolf|bear|penguin|dolphin|snake|butterfly|panda|lion",
    "number": "two|five|seven|12|25|40|dozens of|hundreds of|eight|thirty",
    "person": "my sister|my brother|my mother|dad|grandma|my wife|my husband|our neighbour|my boss|"
    "a colleague|my best friend|Maria|David|Aisha|Chen|Olga|Tom|Priya|Ahmed|Sofia|Lucas|Hannah|"
    "my daughter|my son|my cousin|my uncle|my roommate|my therapist|the landlord|my dentist|Ben|"
    "the babysitter|my niece|Emma|Jack|Fatima|Kenji|my fiancé|our teacher|Dr. Lee|Nina|Carlos",
    "place": "Paris|Tokyo|the lake|Berlin|the mountains|Chicago|the beach|Nairobi|Rome|"
    "a small town|"
    ""
    "Mexico City|the countryside|Toronto|Lisbon|Sydney|the airport|the library|the park|Mumbai|"
    "the farmers market|Barcelona|New York|San Francisco|London|Seoul|the community center|Iceland|"
    "the hospital|the old town|the national park|Vienna|Boston|Cairo|Istanbul|the museum|Denver",
    "hobby": "painting|running|pottery|chess|hiking|photography|baking bread|the guitar|gardening|"
    "swimming|yoga|knitting|rock climbing|birdwatching|video games|woodworking|the piano|surfing|"
    "cycling|salsa dancing|astronomy|writing poetry|meditation|volunteering|fishing|basketball|"
    "board games|calligraphy|skiing|the violin|martial arts|reading mystery novels|camping|soccer",
    "food": "sushi|pasta|spicy curry|dark chocolate|tacos|mango ice cream|pancakes|ramen|salad|"
    "grilled salmon|peanut butter|black coffee|green tea|oat milk|pizza|dumplings|lasagna|hummus|"
    "strawberries|mushroom soup|cheesecake|fried rice|avocado toast|shrimp|gluten free bread|"
    "bagels",
    "allergy": "peanuts|shellfish|penicillin|pollen|lactose|gluten|bee stings|cats|eggs|dust|latex",
    "pet": "dog|cat|puppy|parrot|rabbit|hamster|golden retriever|kitten|turtle|horse|guinea pig",
    "petname": "Luna|Max|Biscuit|Oliver|Pepper|Bruno|Coco|Rex|Misty|Toby|Shadow|Daisy",
    "job": "nurse|software engineer|teacher|carpenter|lawyer|data analyst|chef|electrician|"
    "designer|"
    ""
    "accountant|journalist|pilot|pharmacist|social worker|product manager|firefighter|musician|"
    "veterinarian|research scientist|sales manager|truck driver|architect|photographer|counselor",
    "feeling": "happy|anxious|exhausted|proud|lonely|excited|grateful|overwhelmed|calm|frustrated|"
    "sad|relieved|nervous|hopeful|inspired|angry|bored|scared|confident|disappointed|jealous|"
    "amazed",
    "event": "wedding|birthday party|job interview|marathon|graduation|concert|family reunion|"
    "charity run|baby shower|surgery|exam|road trip|art show|funeral|promotion|moving day|picnic|"
    "pride parade|book club|camping trip|dance recital|housewarming|anniversary|school play|"
    "festival",
    "time": "yesterday|last week|this morning|tomorrow|next month|on Friday|two years ago|tonight|"
    "in 2019|last summer|on March 3|at 5 pm|every Tuesday|over the weekend|in December|on Monday|"
    "back in college|during the holidays|a few days ago|at noon|since January|when I was a child",
    "amount": "$20|300 dollars|12 percent|4,500 euros|£75|half|double|1.5 million|$1,250|9 %|3",
    "service": "payment service|checkout|login page|production database|search index|API gateway|"
    "mail server|billing job|mobile app|staging cluster|DNS|load balancer|message queue|cache|"
    "authentication service|backup job|data pipeline|web server|Kubernetes cluster|CI runner|VPN|"
    "Redis node|Kafka broker|Postgres replica|object storage|monitoring agent|notification service",
    "failure": "is down|returns 500 errors|is extremely slow|times out|crashed|lost data|"
    "is offline|"
    ""
    "ran out of memory|ran out of disk space|rejects every request|is stuck in a restart loop|"
    "leaks connections|shows stale results|was compromised|cannot be reached|is overloaded|"
    "fails its health check|drops messages|is throttled|corrupted a file|"
    "has an expired certificate",
    "recovery": "is back to normal|was restored from backup|has been fixed|"
    "recovered after a restart|"
    ""
    "is resolved|was rolled back|is stable again|was patched|is healthy|has been mitigated",
    "team": "the on-call engineer|the security team|support|the database team|operations|finance|"
    "the legal department|marketing|the product team|our vendor|the customer|QA|human resources",
    "secret": "customer data|passwords|credit card numbers|API keys|medical records|"
    "email addresses|"
    ""
    "payroll files|private keys|access tokens|source code|chat logs|social security numbers",
    "product": "laptop|headphones|subscription|sofa|coffee machine|router|phone|printer|jacket|"
    "gift card|air fryer|monitor|bicycle|washing machine|camera|keyboard|tablet|vacuum cleaner",
    "problem": "arrived broken|never arrived|was charged twice|does not turn on|is the wrong size|"
    "keeps disconnecting|overheats|is missing a part|makes a strange noise|cannot be activated|"
    "was delivered to the wrong address|stopped working after the update|has a cracked screen",
    "setting": "dark mode|email notifications|two factor authentication|metric units|short answers|"
    "large fonts|a vegetarian menu|the aisle seat|window seats|bullet points|British spelling|"
    "weekly summaries|24 hour time|quiet hours|formal tone|Spanish|light theme|monthly billing",
    "body": "knee|back|shoulder|head|stomach|ankle|wrist|neck|throat|tooth|eye|chest|left arm",
    "illness": "flu|migraine|asthma|diabetes|high blood pressure|a cold|insomnia|depression|covid|"
    "a broken leg|anemia|arthritis|cancer|an ear infection|food poisoning|a concussion|ADHD",
    "task": "renew the passport|call the bank|submit the report|pay the rent|water the plants|"
    "book flights|send the invoice|review the pull request|rotate the keys|upgrade the library|"
    "order groceries|fix the leaking tap|write the unit tests|file the tax return|migrate the data|"
    "prepare the slides|pick up the kids|schedule a dentist appointment|update the documentation",
    "topic": "climate change|politics|machine learning|parenting|adoption|mental health|"
    "the economy|"
    ""
    "space travel|religion|classic movies|football|education|immigration|jazz|history|cooking|art|"
    "LGBTQ rights|women's rights|poetry|philosophy|gene therapy|electric cars|startups|travel",
    "thing": "book|necklace|recipe|photo|letter|painting|song|movie|poem|bowl|sweater|map|podcast",
    "weather": "rain|snow|a heat wave|thunderstorms|fog|strong wind|sunshine|a hurricane|hail|"
    "frost",
    "object": "car|bike|wallet|umbrella|passport|house keys|backpack|glasses|fridge|heater|roof|"
    "kitchen sink|garage door|old piano|motorcycle|boat|garden fence|smoke detector|front door",
}

PATTERNS = """
I love {hobby}, it makes me feel {feeling}.|I started {hobby} {time} with {person}.
{person} moved to {place} {time}.|{person} works as a {job} in {place}.|I am a {job} from {place}.
I used to be a {job}, but now I teach {hobby}.|My favourite food is {food}.|I can't stand {food}.
{person} is allergic to {allergy}.|I am allergic to {allergy}, please remember that.
Our {pet} {petname} got sick {time}.|We adopted a {pet} named {petname} {time}.
What is the name of my {pet}?|How many pets does {person} have?|When did {person} visit {place}?
Where does {person} live now?|What does {person} do for a living?|What did {person} buy {time}?
Why was {person} {feeling} about the {event}?|When is the {event}?|How was the {event} {time}?
The {event} was amazing, I felt so {feeling}!|I'm really {feeling} about the {event} {time}.
{person} invited us to a {event} in {place}.|We went to {place} {time} and had {food}.
Hey! How have you been? I just got back from {place}.|Wow, congrats on the {event}!
That sounds great, {hobby} is so relaxing.|I've been feeling {feeling} lately because of work.
Thanks for listening, talking about {topic} really helps.|What got you into {hobby}?
We talked about {topic} over dinner.|{person} gave me a {thing} about {topic}.
I read a {thing} about {topic} {time}.|Here's a {thing} I made {time}, what do you think?
My {body} hurts after {hobby}.|{person} was diagnosed with {illness} {time}.
The doctor says it is {illness}, I should rest.|I take medication for {illness} every morning.
Remind me to {task} {time}.|Did you {task}?|I still need to {task}.|{person} promised to {task}.
Please {task} before {time}.|The task to {task} is done.|Don't forget: {task}!|to do: {task}
User prefers {setting}.|I'd rather have {setting}.|Please turn off {setting}.
Enable {setting} for me.
How do I change {setting}?|Actually, I no longer want {setting}.|What settings does the user like?
The {service} {failure}.|CRITICAL: the {service} {failure}, users are affected.
{service} {recovery}.
Incident: {service} {failure} since {time}.|The {service} {failure} again, please page {team}.
Is the {service} still having problems?|Which outages are unresolved?|Why did the {service} fail?
{team} is investigating why the {service} {failure}.|False alarm, the {service} was never down.
The outage of the {service} is over, it {recovery}.|Root cause: the {service} {failure}.
Deploy of the {service} finished {time}.|Scheduled maintenance of the {service} {time}.
{secret} were leaked {time}.|Someone exposed {secret} in a public bucket.|No {secret} were exposed.
An attacker stole {secret} from the {service}.|Security review of the {service} with {team} {time}.
We must notify {team} that {secret} were exposed.|Rotate {secret} stored on the {service}.
My {product} {problem}.|The {product} I ordered {time} {problem}.|I want a refund for my {product}.
Can I return the {product}?|Your refund of {amount} for the {product} has been issued.
I was charged {amount} for a {product} I never bought.|How much does the {product} cost?
Where is my order? The {product} should have come {time}.|Thanks, the {product} works now.
Please cancel my {product} order.|The replacement {product} was shipped {time}.
We spent {amount} on the {event}.|Rent went up by {amount} {time}.
Revenue grew {amount} this quarter.
The budget for {topic} is {amount}.|{team} approved {amount} for the {event}.
There will be {weather} in {place} {time}.|The flight to {place} was cancelled due to {weather}.
The {object} was stolen {time}.|I lost my {object} in {place}.|{person} repaired the {object}.
We need a new {object}, the old one broke.|The {object} is in the garage.|Someone hit my {object}.
{person} and I broke up {time}.|{person} got married in {place}.|{person} passed away {time}.
{person} is expecting a baby.|{person} was promoted to {job}.|{person} lost the job as a {job}.
I want to learn more about {topic}.|What do you think about {topic}?|She gave a talk on {topic}.
Meeting with {team} about {topic} {time}.|Notes from the call with {team}: budget, hiring, {topic}.
My phone number changed {time}.|My address is in {place} now.|I was born in {place}.
Lunch with {person} {time}?|See you {time}!|Good morning, how did you sleep?|ok, sounds good
There was an accident near {place}, two people are injured.|We need water and food in {place}.
A fire broke out in {place} {time}.|The flood destroyed the bridge near {place}.|Help, I am trapped.
{person} sends regards.|Nothing to report {time}.|All systems are healthy.|Good job everyone!
A man is riding a {object} down a hill.|Two children are playing with a {pet} in the snow.
A woman is cutting an onion in the kitchen.|A {job} is talking to a group of people outside.
A {pet} is sleeping on the sofa.|A boy jumps into the swimming pool.|Three girls dance on a stage.
A person in a red shirt is {gerund}.|An old man is {gerund} near the river.|A crowd is {gerund}.
Two dogs are {gerund} on the beach.|A young woman with a hat is {gerund}.|Nobody is {gerund} here.
The {pet} is not {gerund}.|Someone is {gerund} in the street.|A black and white {pet} is {gerund}.
{country} and {country} sign a trade agreement.|Protesters clash with police in {country}.
At least {number} people die as a bus crashes in {country}.|{country} elects a new president.
An earthquake of magnitude six hits {country}.|Shares in {country} fell {amount} {time}.
The central bank of {country} raises interest rates.|{country} wins the final against {country}.
A court in {country} sentences a former minister to {number} years in prison.
Scientists say the {animal} population is growing.|The {animal} is native to {country}.
Police arrest {number} suspects after a robbery in {place}.|Ceasefire talks resume in {country}.
It depends on what you want to do with your {object}.|You should probably ask a {job} about that.
I would not worry about it, the {object} will be fine.|There is no easy answer to this question.
"""

_SLOT = re.compile(r"\{(\w+)\}")


def own_texts(seed: int, per_pattern: int = 45) -> list[str]:
    """Distinct sentences: every pattern filled `per_pattern` times."""
    generator = random.Random(f"{seed}-own")
    fillers = {name: words.split("|") for name, words in SLOTS.items()}
    texts: dict[str, None] = {}
    for line in PATTERNS.strip().splitlines():
        for pattern in line.split("|"):
            for _ in range(per_pattern):
                text = _SLOT.sub(lambda match: generator.choice(fillers[match[1]]), pattern)
                texts[text[0].upper() + text[1:] if generator.random() < 0.8 else text] = None
    return list(texts)
